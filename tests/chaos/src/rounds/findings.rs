//! What the stage itself sees of broken promises. The oracle has the rest.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{JOURNAL, Stage, log_of, millis};
use crate::witness;

/// What a busy machine may add to a takeover.
const SLACK: Duration = Duration::from_millis(700);

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which check found it.
    pub check: &'static str,
    /// What was seen.
    pub detail: String,
}

/// Notes a finding.
pub(super) fn note(stage: &Stage, check: &'static str, detail: String) -> Finding {
    stage.journal.note("finding", json!({"check": check, "detail": detail}));
    Finding { check, detail }
}

/// What can only be said at the end.
pub(super) fn at_the_end(stage: &Stage) -> Vec<Finding> {
    let lines: Vec<Value> = witness::read(&stage.dir, JOURNAL).unwrap_or_default();
    let mut found = slow_takeovers(&lines, stage.lease);
    found.extend(gave_up(&lines));
    found.extend((0..stage.servers.len() + 1).filter_map(|server| panicked(stage, server)));
    found.into_iter().map(|(check, detail)| note(stage, check, detail)).collect()
}

type Found = Vec<(&'static str, String)>;

fn slow_takeovers(lines: &[Value], lease: Duration) -> Found {
    let most = millis(lease + Duration::from_secs(1) + SLACK);
    let slow = |line: &&Value| {
        let [ms, blind_ms] = ["ms", "blind_ms"].map(|name| line[name].as_u64().unwrap_or_default());
        // A machine on which a look takes long is slow for the servers as well.
        line["what"] == "takeover" && ms > most + 2 * blind_ms
    };
    lines.iter().filter(slow).map(|line| ("takeover", format!("{line}, and {most} ms is the most"))).collect()
}

/// A server ends when it is told to, and by itself never.
fn gave_up(lines: &[Value]) -> Found {
    let dead = lines.iter().filter(|line| line["what"] == "death");
    let odd = dead.filter(|line| !["SIGKILL", "exit 0"].iter().any(|how| line["how"] == *how));
    odd.map(|line| ("gave-up", format!("a server ended by itself: {line}"))).collect()
}

fn panicked(stage: &Stage, server: usize) -> Option<(&'static str, String)> {
    let log = File::open(log_of(&stage.dir, server)).ok()?;
    let lines = BufReader::new(log).lines().map_while(Result::ok);
    let line = lines.into_iter().find(|line| line.contains("panicked"))?;
    Some(("panic", format!("server {server}: {line}")))
}
