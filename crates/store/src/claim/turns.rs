//! Whose turn it is among tenants that hold no place: with fewer places than tenants, these go round by weight.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

/// Tenants that are remembered at most; forgotten ones count as not served yet.
const REMEMBERED: usize = 10_000;

/// This process's account of turns. Each server goes round by itself, so all of them together do.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<Round>);

#[derive(Debug, Default)]
struct Round {
    /// The turn that was given last. It only rises.
    now: f64,
    /// When those who had a turn have their next one. Whoever isn't here has it now, however long they asked for nothing.
    next: HashMap<Uuid, f64>,
    /// The last tenant that was looked at.
    after: Uuid,
    /// Where the looks began that have not come round to all tenants yet.
    began: Option<Uuid>,
}

impl Turns {
    /// The tenant after which the next look begins.
    pub(crate) fn after(&self) -> Uuid {
        self.lock().after
    }

    /// The tenants behind `from` were looked at, up to `last`; `None`: all of them. True: with the looks before, all were.
    pub(crate) fn looked(&self, from: Uuid, last: Option<Uuid>) -> bool {
        let mut round = self.lock();
        let Some(last) = last else {
            round.began = None;
            return true;
        };
        round.after = last;
        let all_seen = round.began.is_some_and(|began| {
            if from < last { from < began && began <= last } else { from < began || began <= last }
        });
        round.began = if all_seen { None } else { round.began.or(Some(from)) };
        all_seen
    }

    /// What was looked at before counts no more: by the next look something may have become due there.
    pub(crate) fn new_round(&self) {
        self.lock().began = None;
    }

    /// When each of them has its turn; the smallest is first.
    pub(crate) fn of(&self, tenants: &[Uuid]) -> Vec<f64> {
        let round = self.lock();
        tenants.iter().map(|tenant| round.next.get(tenant).copied().unwrap_or(round.now)).collect()
    }

    /// A tenant was given a first place. One of twice the weight has its next turn in half the time.
    pub(crate) fn served(&self, tenant: Uuid, weight: f64) {
        let mut round = self.lock();
        let turn = round.next.get(&tenant).copied().unwrap_or(round.now).max(round.now);
        round.now = turn;
        if round.next.len() >= REMEMBERED {
            round.next.clear();
        }
        round.next.retain(|_, next| *next > turn);
        round.next.insert(tenant, turn + 1.0 / weight);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives `turns` turns to those of `tenants` (with their weights) that are `here`; how many each has had.
    fn play(round: &Turns, tenants: &[(Uuid, f64)], turns: usize) -> Vec<usize> {
        let ids: Vec<Uuid> = tenants.iter().map(|(id, _)| *id).collect();
        let mut had = vec![0; tenants.len()];
        for _ in 0..turns {
            let due = round.of(&ids);
            let first = (0..ids.len()).min_by(|a, b| due[*a].total_cmp(&due[*b])).expect("a tenant");
            round.served(ids[first], tenants[first].1);
            had[first] += 1;
        }
        had
    }

    #[test]
    fn turns_go_round_by_weight() {
        let tenants: Vec<(Uuid, f64)> = [1.0, 1.0, 2.0, 4.0]
            .into_iter()
            .zip(1..)
            .map(|(weight, n)| (Uuid::from_u128(n), weight))
            .collect();
        let had = play(&Turns::default(), &tenants, 800);
        for ((_, weight), had) in tenants.iter().zip(&had) {
            let fair = 100.0 * weight;
            assert!((*had as f64 - fair).abs() <= 2.0, "{had:?}");
        }
    }

    #[test]
    fn who_was_away_is_owed_nothing() {
        let [a, b] = [1, 2].map(|n| (Uuid::from_u128(n), 1.0));
        let round = Turns::default();
        play(&round, &[a], 1000);
        let had = play(&round, &[a, b], 10);
        assert!((4..=6).contains(&had[1]), "{had:?}");
    }

    #[test]
    fn looks_go_on_where_the_last_one_ended_until_all_were_looked_at() {
        let round = Turns::default();
        let at = |n| Uuid::from_u128(n);
        assert!(round.looked(round.after(), None), "there are few");
        assert_eq!(round.after(), Uuid::nil());
        // (3, 7, the first ones again), and past where it began.
        assert!(!round.looked(round.after(), Some(at(3))));
        assert!(!round.looked(round.after(), Some(at(7))));
        assert_eq!(round.after(), at(7));
        assert!(round.looked(round.after(), Some(at(2))));
        // The next round begins behind 2.
        for (last, all_seen) in [(9, false), (1, false), (5, true), (6, false)] {
            assert_eq!(round.looked(round.after(), Some(at(last))), all_seen, "{last}");
        }
        round.new_round();
        for (last, all_seen) in [(8, false), (5, false), (7, true)] {
            assert_eq!(round.looked(round.after(), Some(at(last))), all_seen, "{last}");
        }
    }
}
