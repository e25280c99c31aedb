//! What was measured, in numbers.

use std::fmt;
use std::time::Duration;

/// How long something took, each time.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// One more.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest that `percent` of them are not above; zero where there is none.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(rank).copied().unwrap_or_default()
    }
}

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        Self(times.into_iter().collect())
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent| self.percentile(percent).as_millis();
        let (half, most, nearly_all, longest) = (at(50), at(90), at(99), at(100));
        write!(f, "n={} p50={half}ms p90={most}ms p99={nearly_all}ms max={longest}ms", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Times = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(times.percentile(50), Duration::from_millis(100));
        assert_eq!(times.percentile(99), Duration::from_millis(198));
        assert_eq!(times.percentile(100), Duration::from_millis(200));
        assert_eq!(Times::default().percentile(99), Duration::ZERO);
        assert_eq!(times.to_string(), "n=200 p50=100ms p90=180ms p99=198ms max=200ms");
    }
}
