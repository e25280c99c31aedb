//! What each kind of fault did, in numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    times: usize,
    runs: usize,
    slowest: Duration,
    broken: usize,
}

/// All kinds that happened.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    kinds: BTreeMap<&'static str, Kind>,
}

impl Tally {
    /// A fault happened: so many runs were accepted from its beginning until all servers were ready again, which took so
    /// long after it was healed, and so many findings came of it.
    pub(super) fn add(&mut self, fault: &'static str, runs: usize, recovery: Duration, broken: usize) {
        let kind = self.kinds.entry(fault).or_default();
        kind.times += 1;
        kind.runs += runs;
        kind.slowest = kind.slowest.max(recovery);
        kind.broken += broken;
    }

    /// Faults that happened.
    pub fn count(&self) -> usize {
        self.kinds.values().map(|kind| kind.times).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<18} {:>5} {:>14} {:>18} {:>7}",
            "fault", "times", "runs accepted", "slowest recovery", "broken"
        )?;
        for (name, kind) in &self.kinds {
            let (ms, broken) = (kind.slowest.as_millis(), kind.broken);
            write!(f, "\n{name:<18} {:>5} {:>14} {ms:>15} ms {broken:>7}", kind.times, kind.runs)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_recovery_counts() {
        let mut tally = Tally::default();
        tally.add("cut", 3, Duration::from_millis(40), 0);
        tally.add("cut", 2, Duration::from_millis(10), 1);
        let shown = tally.to_string();
        let line: Vec<&str> = shown.lines().nth(1).expect("a line").split_whitespace().collect();
        assert_eq!((tally.count(), line), (2, vec!["cut", "2", "5", "40", "ms", "1"]));
    }
}
