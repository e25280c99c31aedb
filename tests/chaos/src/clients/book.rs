//! What the clients know and write down.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::ask::Answer;
use super::lines::{ACCEPTED, Accepted, ENDS, End, ODD, Odd, SEEN, Seen, TOLD, Told, end_of};
use crate::witness::{Witness, now_ms};

/// How many runs one thread has, so that its history stays small.
const RUNS_A_THREAD: u32 = 6;

/// The logs, and what is remembered of them.
#[derive(Debug)]
pub(super) struct Book {
    accepted: Witness,
    told: Witness,
    seen: Witness,
    ends: Witness,
    odd: Witness,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// Runs that are not known to have ended.
    open: HashMap<String, Accepted>,
    accepted: usize,
    /// Approvals and calls that somebody has in hand.
    in_hand: HashSet<String>,
    /// A thread that takes more runs, and how many it had.
    thread: Option<(String, u32)>,
}

impl Book {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            accepted: Witness::open(dir, ACCEPTED)?,
            told: Witness::open(dir, TOLD)?,
            seen: Witness::open(dir, SEEN)?,
            ends: Witness::open(dir, ENDS)?,
            odd: Witness::open(dir, ODD)?,
            memory: Mutex::default(),
        })
    }

    /// Notes an accepted run; returns when it is on the disk.
    pub(super) async fn accepted(&self, run: Accepted) -> io::Result<()> {
        self.accepted.write(&run).await?;
        let mut memory = self.memory();
        memory.accepted += 1;
        memory.open.insert(run.run_id.clone(), run);
        Ok(())
    }

    /// Notes what was answered with 2xx.
    pub(super) fn told(&self, told: Told) {
        self.told.note(&Told { at_ms: now_ms(), ..told });
    }

    pub(super) fn seen(&self, seen: &Seen) {
        self.seen.note(seen);
    }

    /// Notes an answer that is not among those expected.
    pub(super) fn odd(&self, asked: &str, answer: &Answer) {
        let what = format!("{asked}: {} {}", answer.status, answer.body);
        self.odd.note(&Odd { at_ms: now_ms(), what });
    }

    /// Looks at a run that was shown: true if it has ended, which is noted each time it is seen.
    pub(super) fn shown(&self, run: &Value) -> bool {
        let Some(end) = end_of(run) else { return false };
        let run_id = run["id"].as_str().unwrap_or_default().to_owned();
        self.memory().open.remove(&run_id);
        self.ends.note(&End { at_ms: now_ms(), run_id, end });
        true
    }

    /// Runs that are not known to have ended.
    pub(super) fn open_runs(&self) -> Vec<Accepted> {
        self.memory().open.values().cloned().collect()
    }

    pub(super) fn is_open(&self, run_id: &str) -> bool {
        self.memory().open.contains_key(run_id)
    }

    /// How many were accepted.
    pub(super) fn count(&self) -> usize {
        self.memory().accepted
    }

    /// Takes something in hand; false: somebody has it.
    pub(super) fn take(&self, id: &str) -> bool {
        self.memory().in_hand.insert(id.to_owned())
    }

    pub(super) fn lay_down(&self, id: &str) {
        self.memory().in_hand.remove(id);
    }

    /// A thread for one more run; `None`: a new one is needed.
    pub(super) fn thread(&self) -> Option<String> {
        let mut memory = self.memory();
        let (id, left) = memory.thread.as_mut().filter(|(_, left)| *left > 0)?;
        *left -= 1;
        Some(id.clone())
    }

    pub(super) fn new_thread(&self, id: &str) {
        self.memory().thread = Some((id.to_owned(), RUNS_A_THREAD));
    }

    /// Returns when everything is on the disk.
    pub(super) async fn settled(&self) -> io::Result<()> {
        for log in [&self.accepted, &self.told, &self.seen, &self.ends, &self.odd] {
            log.settled().await?;
        }
        Ok(())
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
