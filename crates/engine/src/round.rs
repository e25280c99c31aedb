//! Rounds of looks for work: from the first one until all tenants were looked at.

use std::time::Duration;

/// A round that finds nothing is followed by a rest of this length at most.
pub(crate) const LONGEST_REST: Duration = Duration::from_millis(400);

/// The round that this server is at. All servers look one after another: with very many tenants who can be given nothing, a
/// server without work that looked again and again would hold up those that find some.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// What its looks took since one that found something.
    fruitless: Duration,
}

impl Round {
    /// Another look took so long. `more`: the next one belongs to the same round. Gives how long to rest: as long as it took, if
    /// the round is over and nothing was found.
    pub(crate) fn looked(&mut self, took: Duration, found: bool, more: bool) -> Duration {
        let fruitless = if found { Duration::ZERO } else { self.fruitless.saturating_add(took) };
        if more {
            self.fruitless = fruitless;
            return Duration::ZERO;
        }
        self.fruitless = Duration::ZERO;
        fruitless.min(LONGEST_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(30);

    #[test]
    fn a_round_that_found_nothing_is_followed_by_a_rest_as_long() {
        let mut round = Round::default();
        for looks in 1..=5 {
            for _ in 1..looks {
                assert_eq!(round.looked(LOOK, false, true), Duration::ZERO);
            }
            assert_eq!(round.looked(LOOK, false, false), LOOK * looks);
        }
    }

    #[test]
    fn what_found_something_is_not_rested_for() {
        let mut round = Round::default();
        assert_eq!(round.looked(LOOK, true, false), Duration::ZERO);
        round.looked(LOOK, false, true);
        assert_eq!(round.looked(LOOK, true, true), Duration::ZERO);
        assert_eq!(round.looked(LOOK, false, false), LOOK, "only what came after it was in vain");
    }

    #[test]
    fn no_rest_is_longer_than_the_time_between_two_looks() {
        assert_eq!(Round::default().looked(LONGEST_REST * 9, false, false), LONGEST_REST);
    }
}
