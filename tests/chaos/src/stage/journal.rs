//! `stage.jsonl`: what was broken, and when. The oracle reads it for what may be excused.
//!
//! Every line has `at_ms` and `what`; servers are numbered from 0:
//!
//! | `what` | and |
//! | --- | --- |
//! | `stage` | `lease_ms`, `servers`, `without` |
//! | `start` | `server`, `pid`, `crash`, `clock`, `pooled`: a life begins |
//! | `death` | `server`, `pid`, `how` (`SIGKILL`, `exit 0`, `signal 6`): it ends |
//! | `fault.begin`, `fault.end` | `n`, `fault`; at the end `told` and `how` (`done`, `skipped`, `failed`) |
//! | `stop`, `cont` | `server`: SIGSTOP, SIGCONT |
//! | `hole.begin`, `hole.end` | `servers`: nothing passes between them and the database |
//! | `postgres.down`, `postgres.up` | |
//! | `clock` | `server` and `clock`, or `database` (seconds ahead) |
//! | `takeover` | `server`, `run` (UUID), `ms`; `never`: nobody had taken it by then; `blind_ms`: how exact that is |
//! | `calm` | the time after a fault begins: all is healed, and servers are ready |
//! | `finding` | `check`, `detail`: the stage saw a promise broken |

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::{Error, Result};
use crate::witness::now_ms;

/// Name of the file in the round's folder.
pub const FILE: &str = "stage.jsonl";

/// The file, open for appending.
#[derive(Debug)]
pub struct Journal {
    file: Mutex<File>,
}

impl Journal {
    /// Opens it in `dir`.
    ///
    /// # Errors
    /// It can't be written.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let file = File::options().create(true).append(true).open(&path);
        Ok(Self { file: Mutex::new(file.map_err(Error::io(path.display().to_string()))?) })
    }

    /// Writes a line: `at_ms` (this machine's clock), `what`, and the fields of `more`.
    pub fn note(&self, what: &str, more: Value) {
        self.note_at(now_ms(), what, more);
    }

    /// The same for a moment that has passed.
    pub fn note_at(&self, at_ms: u64, what: &str, more: Value) {
        let mut line = json!({"at_ms": at_ms, "what": what});
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One write a line, so that a reader never meets half of one for long. A full disk is not this file's: the
        // stage fills only its own.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}
