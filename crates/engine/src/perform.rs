//! Commands on their way: each is a task; those that the state no longer wants are given up, writes that are out are not.

use std::collections::HashMap;

use answerable_core::id::CallId;
use answerable_core::run::{Command, Event, outstanding};
use answerable_ports::commit::StoredArtifact;
use tokio::task::{AbortHandle, JoinSet};

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
}

struct Out {
    abort: AbortHandle,
    writes: bool,
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

    /// Begins what is outstanding and isn't out; gives up what is out and no longer wanted.
    pub(crate) fn launch(&mut self, session: &Session) {
        let wanted = outstanding(&session.state);
        self.give_up(|command| !wanted.contains(command));
        for command in wanted {
            if !self.out.contains_key(&command) {
                self.begin(session, command);
            }
        }
    }

    /// Gives up reads and questions: the run has ended. Writes are let finish.
    pub(crate) fn only_writes(&mut self) {
        self.give_up(|_| true);
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
        let writes = matches!(command, Command::RunTool { call, .. }
            if session.state.call(call).is_some_and(|call| call.writes));
        let abort = match command {
            // Built with the commit.
            Command::BuildContext => return,
            Command::CallModel { .. } => {
                let call = ModelCall::of(session);
                self.tasks.spawn(async move { (command, call.run().await, None) })
            }
            Command::RunTool { call, attempt } => {
                let Some(tool_call) = ToolCall::of(session, call) else { return missing(session, call) };
                self.tasks.spawn(async move {
                    let (event, artifact) = tool_call.run(attempt).await;
                    (command, event, artifact)
                })
            }
            Command::ClaimKey { call } => {
                let Some(tool_call) = ToolCall::of(session, call) else { return missing(session, call) };
                self.tasks.spawn(async move { (command, tool_call.claim_key().await, None) })
            }
            Command::Reconcile { call } => {
                let Some(tool_call) = ToolCall::of(session, call) else { return missing(session, call) };
                let reconciler = reconciler(session, call);
                self.tasks.spawn(async move {
                    let (event, artifact) = tool_call.reconcile(reconciler).await;
                    (command, event, artifact)
                })
            }
        };
        self.out.insert(command, Out { abort, writes });
    }

    /// Waits for the next outcome; `None`: nothing is out.
    pub(crate) async fn next(&mut self) -> Option<Cause> {
        loop {
            match self.tasks.join_next().await? {
                Ok((command, event, artifact)) => {
                    // What was given up may have come in all the same; the state has gone on without it.
                    if self.out.remove(&command).is_some() {
                        return Some(Cause { event, artifact, inbox: None });
                    }
                }
                Err(error) if error.is_cancelled() => {}
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
    }

    /// An outcome that is there already.
    pub(crate) fn ready(&mut self) -> Option<Cause> {
        while let Some(joined) = self.tasks.try_join_next() {
            if let Ok((command, event, artifact)) = joined
                && self.out.remove(&command).is_some()
            {
                return Some(Cause { event, artifact, inbox: None });
            }
        }
        None
    }
}

fn reconciler(session: &Session, call: CallId) -> Option<answerable_core::agent::ToolSpec> {
    let tool = session.registry.tool(&session.state.call(call)?.tool_name)?;
    session.registry.tool(&tool.reconcile.as_ref()?.tool).cloned()
}

/// A state that wants a call which it, its agent or its inputs don't have: the run stays as it is and its lease runs out,
/// so that it ends as a crash loop and not in silence.
fn missing(session: &Session, call: CallId) {
    tracing::error!(run_id = %session.lease().run_id, tool_call_id = %call, "a call that is outstanding has no input");
}
