//! The model and the far side of the tools, as the desk has them.

use answerable_core::id::{CallId, TenantId};
use answerable_core::model::{Finish, ModelFailure, ModelReply, ModelRequest, ReplyCall};
use answerable_ports::{
    Came, DeltaSink, ListedTool, McpFault, ModelProvider, ModelTarget, Patience, PreparedCall, ToolExecutor,
    ToolSource,
};
use async_trait::async_trait;
use serde_json::Map;

use crate::desk::{Desk, Heard};

/// Waits for something; dropped before it came, it says so.
pub(crate) struct Waiting<'a> {
    desk: &'a Desk,
    dropped: Option<Heard>,
}

impl Waiting<'_> {
    pub(crate) fn came(mut self) {
        self.dropped = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.take() {
            self.desk.note(dropped);
        }
    }
}

impl Desk {
    pub(crate) fn note_if_dropped(&self, dropped: Heard) -> Waiting<'_> {
        Waiting { desk: self, dropped: Some(dropped) }
    }
}

#[async_trait]
impl ModelProvider for Desk {
    /// Wants the write once, then answers.
    async fn ask(
        &self,
        _: &ModelTarget,
        request: &ModelRequest,
        _: Patience,
        _: &dyn DeltaSink,
    ) -> Result<ModelReply, ModelFailure> {
        self.note(Heard::Asked(Box::new(request.clone())));
        let call = ReplyCall { id: None, name: self.ways.borrow().tool.into(), arguments: "{}".into() };
        let asked = request.messages.iter().any(|message| message.tool_call_id.is_some());
        if asked {
            let mut ways = self.ways.subscribe();
            ways.wait_for(|ways| ways.concludes).await.expect("the desk is there");
        }
        let times = if self.ways.borrow().twice { 2 } else { 1 };
        let calls = if asked { Vec::new() } else { vec![call; times] };
        let text = if calls.is_empty() { "done".into() } else { String::new() };
        Ok(ModelReply {
            text,
            calls,
            finish: Finish::Stop,
            finish_reason: None,
            usage: None,
            extra: Map::new(),
        })
    }
}

#[async_trait]
impl ToolExecutor for Desk {
    async fn run(&self, _: &PreparedCall) -> Came {
        self.note(Heard::Sent);
        let waiting = self.note_if_dropped(Heard::RequestDropped);
        let mut ways = self.ways.subscribe();
        let answer =
            ways.wait_for(|ways| ways.answer.is_some()).await.expect("the desk is there").answer.clone();
        waiting.came();
        answer.expect("an answer").into()
    }

    fn call_off(&self, _: CallId) {
        self.note(Heard::CalledOff);
    }
}

#[async_trait]
impl ToolSource for Desk {
    async fn list(&self, _: TenantId, server: &str) -> Result<Vec<ListedTool>, McpFault> {
        self.note(Heard::Listed);
        self.ways.borrow().offers.get(server).cloned().unwrap_or_else(|| Ok(Vec::new()))
    }

    fn changes(&self, _: TenantId, _: &str) -> u64 {
        0
    }
}
