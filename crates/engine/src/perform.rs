//! Commands on their way: each is a task; those that the state no longer wants are given up, writes that are out are not.

use std::collections::HashMap;
use std::sync::Arc;

use answerable_core::id::CallId;
use answerable_core::run::{Command, Event, Reconciliation, Stage, outstanding};
use answerable_core::tool::{Attempt, ErrorCode, Reconciled};
use answerable_ports::LateOutcome;
use answerable_ports::commit::StoredArtifact;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::Instrument as _;

use crate::gate::Gate;
use crate::late;
use crate::model_call::ModelCall;
use crate::session::{Cause, Session};
use crate::tool_call::ToolCall;

/// What came of a command.
type Done = (Command, Event, Option<StoredArtifact>);

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
        for command in wanted {
            let begins = !draining || matches!(command, Command::RunTool { .. });
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

    /// Gives up all but writes that have left and that nobody will send again.
    pub(crate) fn only_unrepeatable(&mut self) {
        self.out.retain(|_, out| {
            if out.repeatable {
                out.abort.abort();
            }
            !out.repeatable
        });
        self.call_back(ErrorCode::Unavailable);
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
            Command::CallModel { .. } => {
                let call = ModelCall::of(session);
                self.tasks.spawn(async move { (command, call.run().await, None) }.in_current_span())
            }
            Command::Summarize { .. } => {
                let call = ModelCall::for_summary(session);
                self.tasks.spawn(async move { (command, call.run().await, None) }.in_current_span())
            }
            Command::RunTool { call, attempt } => {
                let Some(tool_call) = ToolCall::of(session, call) else {
                    return self.missing(session, command);
                };
                gate = Arc::clone(&tool_call.gate);
                let sent = async move {
                    let (event, artifact) = tool_call.run(attempt).await;
                    (command, event, artifact)
                };
                self.tasks.spawn(sent.in_current_span())
            }
            Command::ClaimKey { call } => {
                let Some(tool_call) = ToolCall::of(session, call) else {
                    return self.missing(session, command);
                };
                self.tasks
                    .spawn(async move { (command, tool_call.claim_key().await, None) }.in_current_span())
            }
            Command::Reconcile { call } => {
                let Some(tool_call) = ToolCall::of(session, call) else {
                    return self.missing(session, command);
                };
                let reconciler = reconciler(session, call);
                let asked = async move {
                    let (event, artifact) = tool_call.reconcile(reconciler).await;
                    (command, event, artifact)
                };
                self.tasks.spawn(asked.in_current_span())
            }
        };
        self.out.insert(command, Out { abort, writes, repeatable, tainted, gate });
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
        let abort = self.tasks.spawn(async move { (command, event, None) });
        let gate = Arc::default();
        self.out.insert(command, Out { abort, writes: false, repeatable: true, tainted: false, gate });
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

    /// What was given up may have come in all the same; the state has gone on without it.
    fn landed(&mut self, (command, event, artifact): Done) -> Option<Cause> {
        let out = self.out.remove(&command)?;
        if let (Command::RunTool { call, attempt }, Event::ToolAttempted { outcome, .. }) = (command, &event)
            && !out.repeatable
        {
            self.owed.push(late::came(call, attempt, out.tainted, outcome, artifact.clone()));
        }
        Some(Cause { event, artifact, inbox: None })
    }
}

fn reconciler(session: &Session, call: CallId) -> Option<answerable_core::agent::ToolSpec> {
    let tool = session.registry.tool(&session.state.call(call)?.tool_name)?;
    session.registry.tool(&tool.reconcile.as_ref()?.tool).cloned()
}

/// Whether a command changes something outside, may be given again, and may have been done before.
fn nature(session: &Session, command: Command) -> (bool, bool, bool) {
    let Command::RunTool { call, .. } = command else { return (false, true, false) };
    let Some(call) = session.state.call(call) else { return (false, true, false) };
    let idempotent = session.registry.tool(&call.tool_name).is_some_and(|tool| tool.idempotent);
    let tainted = matches!(call.stage, Stage::Out { tainted: true, .. });
    (call.writes, !call.writes || idempotent, tainted)
}
