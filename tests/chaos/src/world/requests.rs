//! The log of requests: each one's arrival, and how it ended.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::lines::{MODEL, ModelLine, REQUESTS, RequestLine};
use crate::witness::{Witness, now_ms};

/// Both logs of requests.
#[derive(Debug)]
pub(super) struct Requests {
    tools: Witness,
    model: Witness,
    count: AtomicU64,
}

/// A request that is under way. Dropped before it was ended, its peer went away.
#[derive(Debug)]
pub(super) struct Open {
    log: Arc<Requests>,
    n: u64,
    of_model: bool,
    has_ended: bool,
}

impl Requests {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            tools: Witness::open(dir, REQUESTS)?,
            model: Witness::open(dir, MODEL)?,
            count: AtomicU64::new(0),
        })
    }

    /// Notes an arrival at a tool; nothing may be done for it before this returns.
    pub(super) async fn began(self: &Arc<Self>, line: RequestLine) -> io::Result<Open> {
        let open = self.next(false);
        self.tools.write(&RequestLine { at_ms: now_ms(), n: open.n, ..line }).await?;
        Ok(open)
    }

    /// Notes an arrival at the model.
    pub(super) async fn model_began(self: &Arc<Self>, line: ModelLine) -> io::Result<Open> {
        let open = self.next(true);
        self.model.write(&ModelLine { at_ms: now_ms(), n: open.n, ..line }).await?;
        Ok(open)
    }

    /// Returns when everything is on the disk.
    pub(super) async fn settled(&self) -> io::Result<()> {
        self.tools.settled().await?;
        self.model.settled().await
    }

    fn next(self: &Arc<Self>, of_model: bool) -> Open {
        let n = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        Open { log: Arc::clone(self), n, of_model, has_ended: false }
    }
}

impl Open {
    /// Notes how it ended.
    pub(super) fn ended(mut self, how: &str) {
        self.note(how);
    }

    fn note(&mut self, how: &str) {
        self.has_ended = true;
        let (at_ms, n, how) = (now_ms(), self.n, Some(how.to_owned()));
        if self.of_model {
            self.log.model.note(&ModelLine { at_ms, n, how, ..ModelLine::default() });
        } else {
            self.log.tools.note(&RequestLine { at_ms, n, how, ..RequestLine::default() });
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.has_ended {
            self.note("gone");
        }
    }
}
