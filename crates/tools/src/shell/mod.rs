//! Tools of kind `shell`: a command in a sandbox, over a copy of the run's files.
//!
//! The parts, in the order of a call: `bring` copies the workspace into a folder, the sandbox runs the command, `found`
//! says what it changed there, `keep` commits that under the versions that were copied, `told` says all of it to the
//! model.
//!
//! A command that has no network can do nothing but change its folder, so until its changes are committed nothing has
//! happened; and they are committed with the call's id, so that the same call sent again changes nothing. One that has
//! the network may have done anything there: it is unclear when it doesn't come to its end.

mod bring;
mod found;
mod keep;
mod off;
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use answerable_core::agent::ShellSpec;
use answerable_core::id::CallId;
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_core::workspace::MAX_WORKSPACE_BYTES;
use answerable_ports::{Came, PreparedCall, StoreError, ToolExecutor, Workspace, WorkspaceStore};
use answerable_sandbox::{Ended, Fault, How, Limits, Order, Sandbox};
use async_trait::async_trait;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use bring::Copy;
use off::Off;

/// What a command may write beside a full workspace, in bytes: what it needs on its way and deletes.
const ROOM: u64 = 256 << 20;
/// Of its time, what is kept for committing changes: this part of it,
const COMMIT_PART: u32 = 5;
/// and no more than this: as many contents as a command may change are put into an object storage of middling speed.
const COMMIT_TIME: Duration = Duration::from_secs(20);

/// Runs tools of kind `shell`.
#[derive(Clone)]
pub struct ShellTools {
    sandbox: Sandbox,
    files: Arc<dyn WorkspaceStore>,
    network: bool,
    off: Off,
}

impl ShellTools {
    /// Commands run in `sandbox`, over these files. Only with `network` may a tool that asks for the network have it.
    #[must_use]
    pub fn new(sandbox: Sandbox, files: Arc<dyn WorkspaceStore>, network: bool) -> Self {
        Self { sandbox, files, network, off: Off::default() }
    }
}

#[async_trait]
impl ToolExecutor for ShellTools {
    /// Dropping the future ends the command with all its processes.
    async fn run(&self, call: &PreparedCall) -> Came {
        let whole = Duration::from_millis(call.tool.timeout_ms());
        let spec = call.tool.shell.clone().unwrap_or_default();
        let ends = Instant::now() + whole;
        let commit_time = (whole / COMMIT_PART).min(COMMIT_TIME);
        let one = One { tools: self, call, spec, ends, commit_time, may_have_acted: AtomicBool::new(false) };
        match timeout_at(ends, one.run()).await {
            Ok(done) => done.unwrap_or_else(Came::from),
            Err(_) => one.late().into(),
        }
    }

    /// Ends the command. Changes that are being committed are let be.
    fn call_off(&self, call: CallId) {
        self.off.call_off(call);
    }
}

/// What came of a call: an answer, or why there is none.
type Done<T = Came> = Result<T, Attempt>;

/// One call.
struct One<'c> {
    tools: &'c ShellTools,
    call: &'c PreparedCall,
    spec: ShellSpec,
    /// When the tool's time is up.
    ends: Instant,
    commit_time: Duration,
    /// Its changes are on their way into the database, or it runs and has the network.
    may_have_acted: AtomicBool,
}

impl One<'_> {
    async fn run(&self) -> Done {
        // First of all: it is called off once, whenever that is.
        let under_way = self.tools.off.begin(self.call.call_id);
        let command = self.command()?;
        let before = self.files().outcome(self.call.tenant_id, self.call.call_id).await.map_err(not_asked)?;
        if let Some(outcome) = before {
            return Ok(self.answer(&outcome.output));
        }
        let (copy, ended) = tokio::select! {
            biased;
            () = under_way.called_off() => return Err(self.called_off()),
            ran = self.run_command(command) => ran?,
        };
        match ended.how {
            How::Stopped(stop) => Err(self.stopped(stop, &ended)),
            How::Exited(code) => self.keep(copy, code, &ended).await,
        }
    }

    /// Until now nothing is changed but the copy.
    async fn run_command(&self, command: String) -> Done<(Copy, Ended)> {
        let busy = || Attempt::NotDone(ErrorCode::RateLimited, "all sandboxes are in use".into(), None);
        let last = self.ends.checked_sub(self.commit_time).unwrap_or(self.ends);
        let place = timeout_at(last, self.tools.sandbox.place()).await.map_err(|_| busy())?;
        let copy = timeout_at(last, self.bring(place)).await.map_err(|_| not_ready())??;
        let order = Order { command, network: self.spec.network, limits: self.limits()? };
        self.may_have_acted.store(self.spec.network, Ordering::Relaxed);
        let ended = self.tools.sandbox.run(Arc::clone(&copy.folder), order).await;
        Ok((copy, ended.map_err(|fault| self.not_run(&fault))?))
    }

    fn called_off(&self) -> Attempt {
        let words = "it was called off; no file was changed".to_owned();
        if self.may_have_acted() {
            Attempt::Unclear(ErrorCode::Cancelled, words)
        } else {
            Attempt::Refused(ErrorCode::Cancelled, words)
        }
    }

    /// Its time is up while it was still at something.
    fn late(&self) -> Attempt {
        let message = format!("not done within {} ms", self.call.tool.timeout_ms());
        if self.may_have_acted() {
            Attempt::Unclear(ErrorCode::Timeout, message)
        } else {
            Attempt::NotDone(ErrorCode::Timeout, format!("{message}; no file was changed"), None)
        }
    }

    fn may_have_acted(&self) -> bool {
        self.may_have_acted.load(Ordering::Relaxed)
    }

    fn files(&self) -> &dyn WorkspaceStore {
        &*self.tools.files
    }

    fn workspace(&self) -> Workspace {
        Workspace { tenant_id: self.call.tenant_id, workspace_id: self.call.workspace_id }
    }

    /// What is to be run, if it may be.
    fn command(&self) -> Done<String> {
        if self.spec.network && !self.tools.network {
            let words = "this server lets no command reach the network; nothing ran";
            return Err(refused(ErrorCode::PermissionDenied, words));
        }
        let command = self.call.input.get("command").and_then(|value| value.as_str());
        command
            .map(str::to_owned)
            .ok_or_else(|| refused(ErrorCode::InvalidArguments, "command must be a text"))
    }

    /// What it may use: of the tool's time, what is left and not kept for its changes.
    fn limits(&self) -> Done<Limits> {
        let left = self.ends.saturating_duration_since(Instant::now()).saturating_sub(self.commit_time);
        if left.is_zero() {
            return Err(not_ready());
        }
        // An integer may be written as 2.0 or 5e2.
        let ms = |value: &Value| value.as_u64().or_else(|| value.as_f64().map(|ms| ms as u64));
        let asked = self.call.input.get("timeout_ms").and_then(ms);
        Ok(Limits {
            time: asked.map_or(left, |ms| left.min(Duration::from_millis(ms))),
            memory: self.spec.memory_mb << 20,
            processes: self.spec.max_processes,
            disk: MAX_WORKSPACE_BYTES + ROOM,
            ..Limits::default()
        })
    }

    /// There was no sandbox, or nothing is known of what became of it.
    fn not_run(&self, fault: &Fault) -> Attempt {
        match fault {
            Fault::Command(words) => refused(ErrorCode::InvalidArguments, format!("{words}; nothing ran")),
            Fault::NotMade(why) => {
                tracing::error!(why, "a sandbox can't be made");
                let words = "a sandbox could not be made at the moment; nothing ran";
                Attempt::NotDone(ErrorCode::Unavailable, words.into(), None)
            }
            Fault::Failed(error) => {
                tracing::error!(%error, "a sandbox failed");
                let words = "the sandbox failed; no file was changed";
                if self.spec.network {
                    Attempt::Unclear(ErrorCode::Internal, words.into())
                } else {
                    Attempt::NotDone(ErrorCode::Internal, words.into(), None)
                }
            }
        }
    }

    /// It was over a limit. Its changes are not kept.
    fn stopped(&self, stop: answerable_sandbox::Stop, ended: &Ended) -> Attempt {
        let (code, words) = told::stopped(stop, &self.spec, ended);
        if self.spec.network { Attempt::Unclear(code, words) } else { Attempt::Refused(code, words) }
    }
}

fn not_ready() -> Attempt {
    let message = "the copy of the workspace was not ready in time; nothing ran";
    Attempt::NotDone(ErrorCode::Timeout, message.into(), None)
}

fn refused(code: ErrorCode, message: impl Into<String>) -> Attempt {
    Attempt::Refused(code, message.into())
}

/// The store didn't answer, and nothing can have been changed.
fn not_asked(error: StoreError) -> Attempt {
    match error {
        StoreError::Away(why) => {
            tracing::warn!(why, "a command's files could not be reached");
            Attempt::NotDone(ErrorCode::Unavailable, "the files can't be reached at the moment".into(), None)
        }
        StoreError::Broken(why) => {
            tracing::error!(why, "a command's files could not be read");
            refused(ErrorCode::Internal, "the server could not do it; nothing was changed")
        }
    }
}

/// The system failed beside the sandbox.
fn broken(error: &std::io::Error) -> Attempt {
    tracing::error!(%error, "a copy of a workspace could not be made or looked through");
    Attempt::NotDone(ErrorCode::Internal, "the server could not do it; no file was changed".into(), None)
}
