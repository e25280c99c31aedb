//! When a delivery is tried again.

use std::time::Duration;

/// Pauses after each failed try, about a day in all.
const PAUSES_S: [u64; 8] = [5, 30, 120, 600, 3_600, 10_800, 28_800, 43_200];
/// Longest pause that an endpoint may ask for.
pub(crate) const LONGEST: Duration = Duration::from_secs(43_200);

/// The pause after try number `tries` (from 1) failed; `None`: no more. `asked` is what `Retry-After` said; `spread` in
/// 0.0..1.0 moves the pause by up to a fifth either way.
pub(crate) fn pause(tries: usize, asked: Option<Duration>, spread: f64) -> Option<Duration> {
    let own = Duration::from_secs(*PAUSES_S.get(tries.checked_sub(1)?)?)
        .mul_f64(0.8 + 0.4 * spread.clamp(0.0, 1.0));
    Some(asked.map_or(own, |asked| asked.min(LONGEST).max(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_over_about_a_day_and_end() {
        let all: Vec<Duration> = (1..).map_while(|tries| pause(tries, None, 0.5)).collect();
        assert_eq!(all.len(), PAUSES_S.len());
        assert!(all.is_sorted());
        let day: Duration = all.iter().sum();
        assert!((80_000..100_000).contains(&day.as_secs()), "{day:?}");
        assert_eq!(pause(9, None, 0.5), None);
        assert_eq!(pause(0, None, 0.5), None);
    }

    #[test]
    fn an_endpoint_may_ask_for_more_but_not_for_ever() {
        let asked = |seconds| pause(1, Some(Duration::from_secs(seconds)), 0.5).map(|pause| pause.as_secs());
        assert_eq!(asked(60), Some(60));
        assert_eq!(asked(1), Some(5));
        assert_eq!(asked(9_999_999), Some(LONGEST.as_secs()));
    }
}
