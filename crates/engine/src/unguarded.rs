//! Acting before it is written down that one will, for the tests that must notice it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use answerable_core::id::CallId;
use answerable_core::run::{Command, inputs_after, outstanding};
use answerable_faults::{self as faults, Guard};
use answerable_ports::Came;

use crate::draft::Draft;
use crate::session::Session;
use crate::tool_call::ToolCall;

/// What calls came to that were sent before their time.
#[derive(Debug, Default)]
pub(crate) struct Early(Mutex<HashMap<CallId, Came>>);

impl Early {
    pub(crate) fn take(&self, call: CallId) -> Option<Came> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&call)
    }

    fn keep(&self, call: CallId, came: Came) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call, came);
    }
}

impl Session {
    /// Without the guard, sends what a draft would have sent.
    pub(crate) async fn act_before_commit(&self, draft: &Draft) {
        if !faults::without(Guard::IntentFirst) {
            return;
        }
        let known = outstanding(&self.state);
        let inputs = inputs_after(&self.inputs, &draft.records);
        for command in outstanding(&draft.state) {
            let Command::RunTool { call, attempt } = command else { continue };
            if known.contains(&command) {
                continue;
            }
            if let Some(tool_call) = ToolCall::within(self, &draft.state, &inputs, call) {
                self.env.early.keep(call, tool_call.once(attempt).await);
            }
        }
    }
}
