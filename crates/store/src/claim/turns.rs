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
}

impl Turns {
    /// The tenant after which the next look begins.
    pub(crate) fn after(&self) -> Uuid {
        self.lock().after
    }

    /// These were looked at, of whom there are more than can be looked at in one go: the next look goes on from the last.
    pub(crate) fn looked_at(&self, tenants: &[Uuid]) {
        if let Some(last) = tenants.last() {
            self.lock().after = *last;
        }
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
    fn a_look_goes_on_where_the_last_one_ended() {
        let round = Turns::default();
        assert_eq!(round.after(), Uuid::nil());
        round.looked_at(&[Uuid::from_u128(3), Uuid::from_u128(7)]);
        round.looked_at(&[]);
        assert_eq!(round.after(), Uuid::from_u128(7));
    }
}
