//! All that is known of a round: the logs of the witnesses, and what the API says.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::clients::lines::{ACCEPTED, Accepted, ENDS, End, ODD, Odd, SEEN, Seen, TOLD, Told};
use crate::stage::JOURNAL;
use crate::witness::read;
use crate::world::lines::{EFFECTS, Effect, MODEL, ModelLine, REQUESTS, RequestLine};

/// Name of the file with what the API said at the end.
const RUNS: &str = "runs.jsonl";

/// What is known.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Runs that were accepted.
    pub accepted: Vec<Accepted>,
    /// What was answered with 2xx.
    pub told: Vec<Told>,
    /// Events on streams, in the order in which they came.
    pub seen: Vec<Seen>,
    /// Ends that were seen.
    pub ends: Vec<End>,
    /// Answers that nobody should get.
    pub odd: Vec<Odd>,
    /// What was done.
    pub effects: Vec<Effect>,
    /// Requests to tools, by number.
    pub requests: Vec<Request>,
    /// Requests to the model: their beginnings.
    pub model: Vec<ModelLine>,
    /// The stage's journal: `{"at_ms", "what", …}`.
    pub stage: Vec<Value>,
    /// What the API says of each accepted run.
    pub runs: HashMap<String, RunFacts>,
}

/// What the API says of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunFacts {
    /// The run; null: there is none.
    pub run: Value,
    /// Its events.
    pub events: Vec<Value>,
    /// Its ledger.
    pub ledger: Vec<Value>,
    /// Its approvals.
    pub approvals: Vec<Value>,
    /// Its tool calls, where somebody was told of one.
    pub calls: Vec<Value>,
    /// Its messages, where somebody said something to it.
    pub messages: Vec<Value>,
}

/// A request from its arrival to its end.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its arrival.
    pub began: RequestLine,
    /// When and how it ended; `None`: it had not when the world ended.
    pub ended: Option<(u64, String)>,
}

impl Request {
    /// How it ended.
    #[must_use]
    pub fn how(&self) -> &str {
        self.ended.as_ref().map_or("", |(_, how)| how)
    }
}

impl Facts {
    /// Reads the logs in a folder.
    ///
    /// # Errors
    /// A log can't be read.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let model: Vec<ModelLine> = read(dir, MODEL)?;
        Ok(Self {
            accepted: read::<Accepted>(dir, ACCEPTED)?,
            told: read::<Told>(dir, TOLD)?,
            seen: read::<Seen>(dir, SEEN)?,
            ends: read::<End>(dir, ENDS)?,
            odd: read::<Odd>(dir, ODD)?,
            effects: read::<Effect>(dir, EFFECTS)?,
            requests: joined(read(dir, REQUESTS)?),
            model: model.into_iter().filter(|line| line.how.is_none()).collect(),
            stage: read(dir, JOURNAL)?,
            runs: HashMap::new(),
        })
    }

    /// Writes what the API said into a folder, a run a line.
    pub(super) fn keep(&self, dir: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(dir.join(RUNS))?);
        for run in self.runs.values() {
            serde_json::to_writer(&mut file, run)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }
}

/// Beginnings with their ends, by number: the order in which they arrived.
pub(super) fn joined(lines: Vec<RequestLine>) -> Vec<Request> {
    let mut ends: HashMap<u64, (u64, String)> = HashMap::new();
    let mut begun = Vec::new();
    for line in lines {
        match &line.how {
            Some(how) => drop(ends.insert(line.n, (line.at_ms, how.clone()))),
            None => begun.push(line),
        }
    }
    begun.sort_by_key(|line| line.n);
    begun.into_iter().map(|began| Request { ended: ends.remove(&began.n), began }).collect()
}
