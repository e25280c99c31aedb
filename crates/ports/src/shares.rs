//! Places that many share. Nobody may hold more than thrice what is free, so whoever comes next finds one; among several who
//! take what they can get, each comes to hold as much as any other.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// How many times what is free somebody may hold. Alone, one gets three quarters of all places.
const TIMES: usize = 3;

/// Why nobody gets a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowded {
    /// There is none.
    Full,
    /// This one has their part of them.
    Part,
}

/// The places. Clones share them.
#[derive(Debug)]
pub struct Shares<K: Copy + Eq + Hash>(Arc<Mutex<Held<K>>>);

impl<K: Copy + Eq + Hash> Clone for Shares<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Held<K: Copy + Eq + Hash> {
    all: usize,
    taken: usize,
    by: HashMap<K, usize>,
    /// Who waits: each one's own in the order in which they came.
    line: HashMap<K, VecDeque<oneshot::Sender<Share<K>>>>,
    /// How many that are, those included who have given up meanwhile.
    waiting: usize,
    may_wait: usize,
}

impl<K: Copy + Eq + Hash> Shares<K> {
    /// So many places, one at least, for which so many may wait.
    pub fn new(all: usize, may_wait: usize) -> Self {
        let (by, line) = (HashMap::new(), HashMap::new());
        let held = Held { all: all.max(1), taken: 0, by, line, waiting: 0, may_wait };
        Self(Arc::new(Mutex::new(held)))
    }

    /// Takes a place.
    ///
    /// # Errors
    /// There is none for this one now.
    pub fn take(&self, who: K) -> Result<Share<K>, Crowded> {
        let mut held = self.held();
        match held.crowded(who) {
            None => Ok(held.give(self, who)),
            Some(why) => Err(why),
        }
    }

    /// Takes a place, and waits for it if need be.
    ///
    /// # Errors
    /// There was none for this one all the while, or too many wait.
    pub async fn take_within(&self, who: K, patience: Duration) -> Result<Share<K>, Crowded> {
        let (why, turn) = {
            let mut held = self.held();
            let Some(why) = held.crowded(who) else { return Ok(held.give(self, who)) };
            match held.wait(who) {
                Some(turn) => (why, turn),
                None => return Err(why),
            }
        };
        match tokio::time::timeout(patience, turn).await {
            Ok(Ok(share)) => Ok(share),
            Ok(Err(_)) | Err(_) => Err(why),
        }
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.held().taken
    }

    fn held(&self) -> MutexGuard<'_, Held<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, who: K) {
        let mut given = Vec::new();
        let mut held = self.held();
        held.taken = held.taken.saturating_sub(1);
        if let Some(count) = held.by.get_mut(&who) {
            *count -= 1;
            if *count == 0 {
                held.by.remove(&who);
            }
        }
        while let Some((next, waiting)) = held.next_in_line() {
            given.push((waiting, held.give(self, next)));
        }
        drop(held);
        for (waiting, share) in given {
            // Who has just given up waiting gives the place back by dropping it.
            let _ = waiting.send(share);
        }
    }
}

impl<K: Copy + Eq + Hash> Held<K> {
    fn of(&self, who: K) -> usize {
        self.by.get(&who).copied().unwrap_or(0)
    }

    /// Why this one gets no place, if so.
    fn crowded(&self, who: K) -> Option<Crowded> {
        match (self.all - self.taken, self.of(who)) {
            (0, _) => Some(Crowded::Full),
            (free, own) if own > 0 && own + 1 > (free - 1).saturating_mul(TIMES) => Some(Crowded::Part),
            _ => None,
        }
    }

    fn give(&mut self, shares: &Shares<K>, who: K) -> Share<K> {
        self.taken += 1;
        *self.by.entry(who).or_default() += 1;
        Share { shares: shares.clone(), who }
    }

    /// A place in line, if one may wait.
    fn wait(&mut self, who: K) -> Option<oneshot::Receiver<Share<K>>> {
        if self.waiting >= self.may_wait {
            self.line.values_mut().for_each(|own| own.retain(|waiting| !waiting.is_closed()));
            self.line.retain(|_, own| !own.is_empty());
            self.waiting = self.line.values().map(VecDeque::len).sum();
        }
        (self.waiting < self.may_wait).then(|| {
            let (waiting, turn) = oneshot::channel();
            self.line.entry(who).or_default().push_back(waiting);
            self.waiting += 1;
            turn
        })
    }

    /// Whoever waits for what there is, and of those one who has least.
    fn next_in_line(&mut self) -> Option<(K, oneshot::Sender<Share<K>>)> {
        loop {
            let may = self.line.keys().filter(|who| self.crowded(**who).is_none());
            let who = *may.min_by_key(|who| self.of(**who))?;
            let next = self.line.get_mut(&who).and_then(VecDeque::pop_front);
            self.waiting -= usize::from(next.is_some());
            if self.line.get(&who).is_none_or(VecDeque::is_empty) {
                self.line.remove(&who);
            }
            match next {
                Some(waiting) if !waiting.is_closed() => return Some((who, waiting)),
                _ => {}
            }
        }
    }
}

/// A place; dropping it gives it back.
#[derive(Debug)]
pub struct Share<K: Copy + Eq + Hash> {
    shares: Shares<K>,
    who: K,
}

impl<K: Copy + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        self.shares.give_back(self.who);
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
