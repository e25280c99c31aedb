//! What came in from outside, as events. Nothing is taken on trust: an approval is judged again before it is used.

use answerable_core::Millis;
use answerable_core::agent::OutputSpec;
use answerable_core::id::{ApprovalId, ArtifactId, CallId};
use answerable_core::json::input_hash;
use answerable_core::run::{Approval, CallVerdict, ChildEnd, Event, Submitted, idempotency_key};
use answerable_core::schema::Effort;
use answerable_core::tool::Output;
use answerable_ports::commit::{DecisionWord, Inbound, InboundBody, StoredArtifact};
use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

use crate::rules::rules;
use crate::session::{Cause, Session, patiently};

impl Session {
    /// Looks for what came in since the last look.
    pub(crate) async fn pull_inbox(&mut self) {
        let (lease, after) = (self.lease(), self.known_inbox);
        match patiently(|| self.env.store.inbox(lease, after)).await {
            Ok(inbound) => self.receive(inbound).await,
            Err(error) => tracing::error!(%error, "the inbox can't be read"),
        }
    }

    /// Takes things in, after what came in earlier. They happened before whatever else isn't committed yet.
    pub(crate) async fn receive(&mut self, inbound: Vec<Inbound>) {
        let mut causes = Vec::new();
        for item in inbound {
            self.known_inbox = self.known_inbox.max(item.number);
            if matches!(item.body, InboundBody::Steer { .. }) {
                self.steers.push(item);
            } else {
                causes.push(self.cause(item).await);
            }
        }
        let earlier = self.causes.iter().rposition(|cause| cause.inbox.is_some()).map_or(0, |last| last + 1);
        self.causes.splice(earlier..earlier, causes);
    }

    async fn cause(&self, item: Inbound) -> Cause {
        let at = self.now();
        let mut artifacts = Vec::new();
        let event = match item.body {
            InboundBody::Cancel { reason } => Event::CancelRequested { at, reason },
            InboundBody::Steer { message_id, content, parts, pinned } => {
                Event::Steered { at, message_id, content, parts, pinned }
            }
            InboundBody::Budget { patch, by } => Event::BudgetChanged { at, patch, by },
            InboundBody::BudgetDenied { approval_id, by } => {
                Event::BudgetDenied { at, approval: approval_id, by }
            }
            InboundBody::Settled { call_id, applied, content, by } => {
                Event::EffectSettled { at, call: call_id, applied, content, by }
            }
            InboundBody::ToolResult { call_id, status, content, error_code } => {
                let (output, whole) = self.limited(call_id, &content);
                artifacts.extend(whole);
                Event::ToolResultSubmitted {
                    at,
                    call: call_id,
                    submitted: Submitted { status, output, error_code },
                }
            }
            InboundBody::ChildEnded { call_id, status, reason, content, used, ran_ms, effect } => {
                let (output, whole) = self.limited(call_id, &content);
                artifacts.extend(whole);
                let end = ChildEnd { status, reason, output, used, ran_ms, effect };
                Event::ChildEnded { at, call: call_id, end: Box::new(end) }
            }
            InboundBody::Decided {
                approval_id,
                call_id,
                decision,
                input,
                content,
                reason,
                by,
                at: given_at,
            } => {
                let verdict = match decision {
                    DecisionWord::Deny => CallVerdict::Denied,
                    DecisionWord::Approve => {
                        CallVerdict::Approved(Box::new(self.approval(approval_id, call_id, input, at).await))
                    }
                    DecisionWord::Answer => {
                        let (output, whole) = self.limited(call_id, &content.unwrap_or_default());
                        artifacts.extend(whole);
                        CallVerdict::Answered(output)
                    }
                };
                let approval = Some(approval_id);
                Event::CallDecided { at, call: call_id, approval, verdict, by, reason, given_at }
            }
        };
        Cause { event, artifacts, inbox: Some(item.number) }
    }

    /// What a person gave as a call's output, under the tool's limits.
    fn limited(&self, call: CallId, content: &str) -> (Output, Option<StoredArtifact>) {
        let spec = self
            .state
            .call(call)
            .and_then(|call| self.registry.tool(&call.tool_name))
            .map(|tool| tool.output.clone());
        limited(content, &spec.unwrap_or_default(), call)
    }

    /// The approval as it is used: with the edited input, judged by the policies of this moment.
    async fn approval(
        &self,
        approval_id: ApprovalId,
        call_id: CallId,
        edited: Option<Value>,
        at: Millis,
    ) -> Approval {
        let tool_name = self.state.call(call_id).map(|call| call.tool_name.clone()).unwrap_or_default();
        let gate = rules(&self.env, &self.facts).await;
        let input = edited.as_ref().or_else(|| self.inputs.get(&call_id));
        let judgement = self.judgement(&gate, &tool_name, input, &Effort::of_one(), at);
        let held = gate.held(judgement, approval_id, at);
        let edited = edited.map(|input| {
            // The key was found sound when the edit was taken; failing that, the call's own id is one.
            let key = idempotency_key(&self.registry, &self.facts.context, &tool_name, &input, call_id);
            let key = key.map_or_else(|_| call_id.to_string(), |(key, _)| key);
            let hash = input_hash(&input);
            (input, hash, key)
        });
        Approval { judged_again: held.judgement, deciders: Some(held.deciders), stands: held.stands, edited }
    }
}

/// Output under a tool's limits, and the whole where it doesn't fit.
pub(crate) fn limited(content: &str, spec: &OutputSpec, call_id: CallId) -> (Output, Option<StoredArtifact>) {
    let id = ArtifactId(Uuid::now_v7());
    let output = Output::limited(content, spec, id);
    let whole = output.needs_artifact().then(|| StoredArtifact {
        id,
        call_id,
        media_type: "text/plain; charset=utf-8".into(),
        content: Bytes::copy_from_slice(content.as_bytes()),
    });
    (output, whole)
}
