//! What the far side knows of each key: the one place where effects are made.
//!
//! It does what a careful service would: a key that was settled (a person was told, or `find_payment` answered
//! `not_applied`) is settled for good, so a request that was still on its way from a server that had been stopped has no
//! effect any more. It doesn't do more than that: a write that doesn't dedupe is done as often as it is asked for.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::lines::{EFFECTS, Effect};
use crate::witness::{Witness, now_ms};

/// All keys, and the log of effects.
#[derive(Debug)]
pub(super) struct Keys {
    known: Mutex<HashMap<String, Key>>,
    effects: Witness,
    /// Some key changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Key {
    /// Requests so far.
    requests: u32,
    /// The highest attempt so far.
    attempt: u32,
    /// Attempts up to this one have no effect any more.
    fenced: u32,
    /// Requests that may still have an effect.
    open: u32,
    /// Requests whose effect is being written.
    writing: u32,
    /// The last one that ended did so without an answer.
    is_unclear: bool,
    /// How many requests there were when `not_applied` was said.
    denied_at: Option<u32>,
    /// Nothing happens under it any more.
    closed: bool,
    /// The first effect's answer.
    applied: Option<Value>,
}

/// What follows for a request.
pub(super) enum Entry {
    /// It may have its effect.
    Go(Ticket),
    /// It was done before, by a tool that dedupes.
    Known(Value),
    /// It comes too late.
    Refused(&'static str),
}

/// The right to make one effect. Dropped, the request ended without an answer.
#[derive(Debug)]
pub(super) struct Ticket {
    keys: Arc<Keys>,
    key: String,
    /// Which request of its key this is, from 1.
    pub(super) nth: u32,
    is_clear: bool,
}

impl Keys {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { known: Mutex::default(), effects: Witness::open(dir, EFFECTS)?, changed: Notify::new() })
    }

    /// A request arrives. Where the tool dedupes, another one of its key is waited for.
    pub(super) async fn enter(self: &Arc<Self>, key: &str, attempt: u32, dedupes: bool) -> Entry {
        loop {
            // Before the look, so that no change is missed.
            let changed = self.changed.notified();
            if let Some(entry) = self.try_enter(key, attempt, dedupes) {
                return entry;
            }
            changed.await;
        }
    }

    fn try_enter(self: &Arc<Self>, name: &str, attempt: u32, dedupes: bool) -> Option<Entry> {
        let mut known = self.known();
        let key = known.entry(name.to_owned()).or_default();
        if dedupes {
            if let Some(answer) = &key.applied {
                return Some(Entry::Known(answer.clone()));
            }
            if key.open > 0 {
                return None;
            }
        }
        if key.closed {
            return Some(Entry::Refused("closed"));
        }
        if !dedupes && (attempt <= key.fenced || attempt < key.attempt) {
            return Some(Entry::Refused("stale"));
        }
        key.requests += 1;
        key.attempt = key.attempt.max(attempt);
        key.open += 1;
        let ticket =
            Ticket { keys: Arc::clone(self), key: name.to_owned(), nth: key.requests, is_clear: false };
        Some(Entry::Go(ticket))
    }

    /// `find_payment`: what became of a key. `not_applied` is said only if it stays true.
    pub(super) fn find(&self, name: &str) -> (&'static str, Option<Value>) {
        let mut known = self.known();
        let key = known.entry(name.to_owned()).or_default();
        if let Some(answer) = &key.applied {
            return ("applied", Some(answer.clone()));
        }
        if key.closed {
            return ("not_applied", None);
        }
        // After an answer, or after `not_applied`, the attempt that is asked about is one that never came: it may.
        let may_come = key.requests > 0 && !key.is_unclear;
        if key.open > 0 || may_come || key.denied_at == Some(key.requests) {
            return ("unknown", None);
        }
        key.denied_at = Some(key.requests);
        key.fenced = key.attempt.max(1);
        ("not_applied", None)
    }

    /// Settles a key for good: true if it has had its effect; if not, it has none any more.
    pub(super) async fn close(&self, name: &str) -> bool {
        loop {
            let changed = self.changed.notified();
            {
                let mut known = self.known();
                let key = known.entry(name.to_owned()).or_default();
                if key.writing == 0 {
                    key.closed = true;
                    return key.applied.is_some();
                }
            }
            changed.await;
        }
    }

    /// Returns when everything is on the disk.
    pub(super) async fn settled(&self) -> io::Result<()> {
        self.effects.settled().await
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Key>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Key)) {
        change(self.known().entry(name.to_owned()).or_default());
        self.changed.notify_waiters();
    }
}

impl Ticket {
    /// Makes the effect: it is on the disk when this returns its answer. `None`: the key was closed meanwhile.
    pub(super) async fn apply(&self, effect: Effect) -> io::Result<Option<Value>> {
        {
            let mut known = self.keys.known();
            let key = known.entry(self.key.clone()).or_default();
            if key.closed {
                return Ok(None);
            }
            key.writing += 1;
        }
        let answer = json!({"done": effect.token, "receipt": format!("r-{}", self.nth)});
        let stored = self.keys.effects.write(&Effect { at_ms: now_ms(), ..effect }).await;
        let is_stored = stored.is_ok();
        self.keys.change(&self.key, |key| {
            key.writing -= 1;
            if is_stored {
                key.applied.get_or_insert_with(|| answer.clone());
            }
        });
        stored.map(|()| Some(answer))
    }

    /// The request was answered: its peer knows what became of it.
    pub(super) fn answered(mut self) {
        self.is_clear = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let is_clear = self.is_clear;
        self.keys.change(&self.key, |key| {
            key.open -= 1;
            key.is_unclear = !is_clear;
        });
    }
}
