//! Commands on their way: each is a task; those that the state no longer wants are given up, writes that are out are not.

use std::collections::HashMap;
use std::sync::Arc;

use answerable_core::id::CallId;
use answerable_core::run::{Command, Event, Reconciliation, Stage, outstanding};
use answerable_core::tool::{Attempt, ErrorCode, Reconciled};
use answerable_ports::commit::StoredArtifact;
use answerable_ports::{LateOutcome, ToolExecutor};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::Instrument as _;

use crate::gate::Gate;
use crate::late;
use crate::listing::Listing;
use crate::model_call::ModelCall;
use crate::place::is_limited;
use crate::session::{Cause, Session};
use crate::tool_call::ToolCall;

/// What came of a command.
type Done = (Command, Event, Vec<StoredArtifact>);

/// Commands that are being performed.
#[derive(Default)]
pub(crate) struct Flight {
    tasks: JoinSet<Done>,
    out: HashMap<Command, Out>,
    /// What is known of writes that nobody sends again, and is not written down yet: it must outlive the lease.
    pub(crate) owed: Vec<LateOutcome>,
}

struct Out {
    abort: AbortHandle,
    writes: bool,
    /// Whoever has the run next sends it again.
    repeatable: bool,
    /// An earlier attempt may have happened.
    tainted: bool,
    /// Its tool or its tenant's day has limits: as long as it waits for its turn, whoever has the run next knows that it has
    /// not left.
    limited: bool,
    gate: Arc<Gate>,
}

impl Flight {
    /// Nothing is out.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// A call that changes something is out.
    pub(crate) fn writes_out(&self) -> bool {
        self.out.values().any(|out| out.writes)
    }

    /// Begins what is outstanding and isn't out; gives up what is out and no longer wanted. `draining`: calls that are
    /// written down as out are still sent, for the next owner would have to take them for unclear; nothing else is begun,
    /// and looks at business keys, which may take as long as another run's call, are left to whoever is next.
    pub(crate) fn launch(&mut self, session: &Session, draining: bool) {
        let wanted = outstanding(&session.state);
        self.give_up(|command| {
            !wanted.contains(command) || (draining && matches!(command, Command::ClaimKey { .. }))
        });
        if draining {
            self.leave_lines();
        }
        if session.state.ending.is_some() {
            self.send_no_more(session);
        }
        for command in wanted {
            let begins =
                !draining || (matches!(command, Command::RunTool { .. }) && !has_limits(session, command));
            if begins && !self.out.contains_key(&command) {
                self.begin(session, command);
            }
        }
    }

    /// What came in is committed.
    pub(crate) fn written(&mut self) {
        self.owed.clear();
    }

    /// Gives up reads and questions: the run has ended. Writes that have left are let finish, for nobody sends them again;
    /// the others are called back.
    pub(crate) fn only_writes(&mut self) {
        self.give_up(|_| true);
        self.out.values_mut().for_each(|out| out.repeatable = false);
        self.call_back(ErrorCode::Cancelled);
    }

    /// Has the far side of what is still out told that nobody wants it any more.
    pub(crate) fn call_off(&self, tools: &dyn ToolExecutor) {
        for command in self.out.keys() {
            if let Command::RunTool { call, .. } = command {
                tools.call_off(*call);
            }
        }
    }

    /// Gives up all but writes that have left and that nobody will send again.
    pub(crate) fn only_unrepeatable(&mut self) {
        self.out.retain(|_, out| {
            if out.repeatable {
                out.abort.abort();
            }
            !out.repeatable
        });
        self.leave_lines();
        self.call_back(ErrorCode::Unavailable);
    }

    /// Gives up calls that wait for their turn: whoever has the run next finds that they have not left.
    fn leave_lines(&mut self) {
        self.out.retain(|_, out| {
            let leaves = out.limited && out.gate.call_back();
            if leaves {
                out.abort.abort();
            }
            !leaves
        });
    }

    /// The run is over its time or limits and waits for its writes only: those that have not left never will.
    fn send_no_more(&mut self, session: &Session) {
        for (command, out) in &mut self.out {
            let command = *command;
            let Command::RunTool { call, .. } = command else { continue };
            if out.gate.call_back() {
                out.abort.abort();
                let message = "the run ended before this call's turn came; nothing was sent".to_owned();
                let outcome = Attempt::NotDone(ErrorCode::Cancelled, message, None);
                let event = Event::ToolAttempted { at: session.env.now(), call, outcome, jitter: 0 };
                out.abort = self.tasks.spawn(async move { (command, event, Vec::new()) });
            }
        }
    }

    /// What has not left never will, and that is known then.
    fn call_back(&mut self, code: ErrorCode) {
        self.out.retain(|command, out| {
            let back = out.gate.call_back();
            if back && let Command::RunTool { call, attempt } = *command {
                out.abort.abort();
                self.owed.push(late::unsent(call, attempt, out.tainted, code));
            }
            !back
        });
    }

    fn give_up(&mut self, unwanted: impl Fn(&Command) -> bool) {
        self.out.retain(|command, out| {
            let ends = unwanted(command) && !out.writes;
            if ends {
                out.abort.abort();
            }
            !ends
        });
    }

    fn begin(&mut self, session: &Session, command: Command) {
        let (writes, repeatable, tainted) = nature(session, command);
        let mut gate = Arc::default();
        let abort = match command {
            // Built with the commit.
            Command::BuildContext => return,
            Command::ListTools { .. } => {
                let listing = Listing::of(session);
                self.tasks.spawn(async move { (command, listing.run().await, Vec::new()) }.in_current_span())
            }
            Command::CallModel { .. } => {
                let call = ModelCall::of(session);
                gate = Arc::clone(&call.gate);
                self.tasks.spawn(async move { (command, call.run().await, Vec::new()) }.in_current_span())
            }
            Command::Summarize { .. } => {
                let call = ModelCall::for_summary(session);
                gate = Arc::clone(&call.gate);
                self.tasks.spawn(async move { (command, call.run().await, Vec::new()) }.in_current_span())
            }
            Command::RunTool { call, attempt } => {
                let Some(tool_call) = ToolCall::of(session, call) else {
                    return self.missing(session, command);
                };
                gate = Arc::clone(&tool_call.gate);
                let sent = async move {
                    let (event, artifacts) = tool_call.run(attempt).await;
                    (command, event, artifacts)
                };
                self.tasks.spawn(sent.in_current_span())
            }
            Command::ClaimKey { call } => {
                let Some(tool_call) = ToolCall::of(session, call) else {
                    return self.missing(session, command);
                };
                self.tasks.spawn(
                    async move { (command, tool_call.claim_key().await, Vec::new()) }.in_current_span(),
                )
            }
            Command::Reconcile { call } => {
                let Some(tool_call) = ToolCall::of(session, call) else {
                    return self.missing(session, command);
                };
                let reconciler = reconciler(session, call);
                let asked = async move {
                    let (event, artifacts) = tool_call.reconcile(reconciler).await;
                    (command, event, artifacts)
                };
                self.tasks.spawn(asked.in_current_span())
            }
        };
        let limited = has_limits(session, command);
        self.out.insert(command, Out { abort, writes, repeatable, tainted, limited, gate });
    }

    /// A state that wants a call which it, its agent or its inputs don't have. That doesn't happen; if it does, the call
    /// isn't sent, and the run says so instead of waiting for it.
    fn missing(&mut self, session: &Session, command: Command) {
        tracing::error!(?command, "what is outstanding can't be made");
        let (at, detail) = (session.env.now(), "The runtime could not prepare this call.".to_owned());
        let event = match command {
            Command::RunTool { call, .. } => {
                let outcome = Attempt::Refused(ErrorCode::Internal, detail);
                Event::ToolAttempted { at, call, outcome, jitter: 0 }
            }
            Command::Reconcile { call } => {
                let reconciliation = Reconciliation { state: Reconciled::Unknown, result: None };
                Event::ToolReconciled { at, call, reconciliation }
            }
            _ => Event::Broken { at, code: "internal_error".into(), detail },
        };
        let abort = self.tasks.spawn(async move { (command, event, Vec::new()) });
        let (gate, limited) = (Arc::default(), false);
        self.out
            .insert(command, Out { abort, writes: false, repeatable: true, tainted: false, limited, gate });
    }

    /// Waits for the next outcome; `None`: nothing is out.
    pub(crate) async fn next(&mut self) -> Option<Cause> {
        loop {
            let joined = self.tasks.join_next().await?;
            if let Some(cause) = self.arrived(joined) {
                return Some(cause);
            }
        }
    }

    /// Waits for the next outcome that nobody else will learn of, and takes note of it; false: there is none to wait for.
    pub(crate) async fn next_owed(&mut self) -> bool {
        while let Some(joined) = self.tasks.join_next().await {
            // What was given up was aborted, and a task that panicked can tell nobody more than that it is unclear.
            if let Ok(done) = joined
                && self.landed(done).is_some()
            {
                return true;
            }
        }
        false
    }

    /// An outcome that is there already.
    pub(crate) fn ready(&mut self) -> Option<Cause> {
        while let Some(joined) = self.tasks.try_join_next() {
            if let Some(cause) = self.arrived(joined) {
                return Some(cause);
            }
        }
        None
    }

    /// What a task came to. One that panicked takes the run's own task with it: nobody else would learn of it.
    fn arrived(&mut self, joined: Result<Done, JoinError>) -> Option<Cause> {
        match joined {
            Ok(done) => self.landed(done),
            Err(error) if error.is_cancelled() => None,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// What was given up may have come in all the same; the state has gone on without it. Of a call that waited for its turn
    /// and never left nothing is owed: whoever has the run next may find that and send the same attempt.
    fn landed(&mut self, (command, event, artifacts): Done) -> Option<Cause> {
        let out = self.out.remove(&command)?;
        if let (Command::RunTool { call, attempt }, Event::ToolAttempted { outcome, .. }) = (command, &event)
            && !out.repeatable
            && (!out.limited || out.gate.has_left())
        {
            self.owed.push(late::came(call, attempt, out.tainted, outcome, artifacts.clone()));
        }
        Some(Cause { event, artifacts, inbox: None })
    }
}

fn reconciler(session: &Session, call: CallId) -> Option<answerable_core::agent::ToolSpec> {
    let tool = session.registry.tool(&session.state.call(call)?.tool_name)?;
    session.registry.tool(&tool.reconcile.as_ref()?.tool).cloned()
}

/// Whether a command is one that may have to wait for its turn.
fn has_limits(session: &Session, command: Command) -> bool {
    if matches!(command, Command::CallModel { .. } | Command::Summarize { .. }) {
        return true;
    }
    let Command::RunTool { call, .. } = command else { return false };
    let tool = session.state.call(call).and_then(|call| session.registry.tool(&call.tool_name));
    tool.is_some_and(is_limited)
}

/// Whether a command changes something outside, may be given again, and may have been done before.
fn nature(session: &Session, command: Command) -> (bool, bool, bool) {
    let Command::RunTool { call, .. } = command else { return (false, true, false) };
    let Some(call) = session.state.call(call) else { return (false, true, false) };
    let idempotent = session.registry.tool(&call.tool_name).is_some_and(|tool| tool.idempotent);
    let tainted = matches!(call.stage, Stage::Out { tainted: true, .. });
    (call.writes, !call.writes || idempotent, tainted)
}
