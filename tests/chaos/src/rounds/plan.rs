//! Which fault comes next.

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use crate::faults::Fault;
use crate::witness::drawn;

/// Faults one after the other: all kinds in some order, then again in another, for ever.
#[derive(Debug)]
pub(super) struct Plan {
    seed: u64,
    kinds: Vec<Fault>,
    in_order: bool,
    turn: u64,
    /// Of this turn, the next one last.
    ahead: Vec<Fault>,
}

impl Plan {
    pub(super) fn new(seed: u64, kinds: Vec<Fault>, in_order: bool) -> Self {
        Self { seed, kinds, in_order, turn: 0, ahead: Vec::new() }
    }

    fn shuffled(&self) -> Vec<Fault> {
        let mut kinds = self.kinds.clone();
        if self.in_order {
            kinds.reverse();
        } else {
            kinds.shuffle(&mut StdRng::seed_from_u64(drawn(self.seed, &["turn", &self.turn.to_string()])));
        }
        // The database's clock stays where it jumps to, so that comes when the rest had its turn.
        kinds.sort_by_key(|fault| fault.name != "clock-database");
        kinds
    }
}

impl Iterator for Plan {
    type Item = Fault;

    fn next(&mut self) -> Option<Fault> {
        if self.ahead.is_empty() && !(self.in_order && self.turn > 0) {
            self.ahead = self.shuffled();
            self.turn += 1;
        }
        self.ahead.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::ALL;

    #[test]
    fn each_kind_has_its_turn_and_the_seed_says_when() {
        let names = |seed| -> Vec<&str> {
            Plan::new(seed, ALL.to_vec(), false).take(2 * ALL.len()).map(|fault| fault.name).collect()
        };
        let (first, second) = (names(1), names(2));
        assert_eq!(first, names(1));
        assert_ne!(first, second);
        for turn in first.chunks(ALL.len()) {
            assert_eq!(turn.last(), Some(&"clock-database"));
            assert!(ALL.iter().all(|fault| turn.contains(&fault.name)));
        }
        let kept: Vec<&str> = Plan::new(1, ALL[..3].to_vec(), true).map(|fault| fault.name).collect();
        assert_eq!(kept, ["kill-one", "kill-some", "kill-all"]);
    }
}
