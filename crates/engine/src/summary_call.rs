//! What is made of a reply to a request for a summary. Asked is as for a turn; nothing of the reply is executed.

use answerable_core::id::MessageId;
use answerable_core::model::{ModelReply, ModelRequest};
use answerable_core::run::{Event, ReplyFacts};
use answerable_ports::{DeltaSink, ModelTarget};
use uuid::Uuid;

use crate::model_call::ModelCall;

impl ModelCall {
    /// The reply that is the summary, or should be. What the provider adds for itself is of no use to it later: the message
    /// is the user's.
    pub(crate) fn summed_up(
        &self,
        target: &ModelTarget,
        request: &ModelRequest,
        reply: ModelReply,
        duration_ms: u64,
    ) -> Event {
        let reading = self.read(request, &reply);
        let facts = ReplyFacts {
            kind: reading.kind,
            text: reading.text,
            extra: None,
            finish_reason: reply.finish_reason,
            cost_microusd: self.cost(Some(target), &reading.usage),
            usage: reading.usage,
            duration_ms,
            message_id: MessageId(Uuid::now_v7()),
            output_fault: None,
            wire: Some(target.kind.clone()),
        };
        Event::Summarized { at: self.env.now(), reply: Box::new(facts) }
    }
}

/// Nobody listens.
pub(crate) struct Unheard;

impl DeltaSink for Unheard {
    fn text(&self, _: &str) {}
}
