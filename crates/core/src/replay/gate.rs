//! Calls and answers of a recording, validated and judged again under what has changed.

use super::{Changes, Rules};
use crate::Millis;
use crate::json::input_hash;
use crate::permission::{CallFacts, Judgement, Policies, judge};
use crate::registry::{Registry, Validation};
use crate::reply::{ReadCall, ReplyKind};
use crate::run::{Approval, CallVerdict, Event, NewCall, idempotency_key};
use crate::schema::Effort;

/// Judges again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate<'a> {
    rules: Rules<'a>,
}

impl<'a> Gate<'a> {
    /// `None`: the verdicts of then stand.
    pub(super) fn of(changes: &Changes<'a>) -> Option<Self> {
        changes.rules.map(|rules| Self { rules })
    }

    /// A recorded event, with whatever is judged in it judged again by `registry`. `input` is the one of the call that is decided on.
    /// `None`: a decision that can't be used any more.
    pub(super) fn again(
        &self,
        registry: &Registry,
        mut event: Event,
        tool_name: &str,
        input: Option<&serde_json::Value>,
    ) -> Option<Event> {
        match &mut event {
            Event::ModelReplied { at, reply, calls, .. } => {
                if reply.kind == ReplyKind::Final {
                    reply.output_fault = registry.output_fault(&reply.text);
                }
                let at = *at;
                for call in calls {
                    *call = self.call(registry, call.clone(), at);
                }
            }
            Event::CallDecided { at, call, verdict: CallVerdict::Approved(approval), .. } => {
                let own = call.to_string();
                if let Some((edited, _, key)) = &mut approval.edited {
                    if !registry.findings(tool_name, edited).is_empty() {
                        return None;
                    }
                    let made = idempotency_key(registry, self.rules.context, tool_name, edited, *call);
                    *key = made.map_or(own, |(key, _)| key);
                }
                self.approval(registry, approval, tool_name, input, *at);
            }
            _ => {}
        }
        Some(event)
    }

    fn approval(
        &self,
        registry: &Registry,
        approval: &mut Approval,
        tool_name: &str,
        input: Option<&serde_json::Value>,
        at: Millis,
    ) {
        let edited = approval.edited.as_ref().map(|(input, ..)| input);
        let input = edited.or(input).cloned().unwrap_or_default();
        approval.judged_again = self.judgement(registry, tool_name, &input, &input_hash(&input), at);
        // Older recordings don't tell who approved: whoever did is taken for those who must.
        let judged_again = &approval.judged_again;
        let deciders = approval.deciders.as_deref();
        approval.stands =
            deciders.is_none_or(|deciders| judged_again.is_met_by(deciders, self.rules.creators));
    }

    /// What was no JSON stays so: the text is not kept. A call beyond what is taken of one reply stays left out.
    fn call(&self, registry: &Registry, call: NewCall, at: Millis) -> NewCall {
        let Some(message_id) = call.message_id else { return call };
        let is_known = registry.tool(&call.tool_name).is_some();
        let (validation, message) = if call.validation == Validation::MalformedArguments && is_known {
            (call.validation, call.message)
        } else {
            let validated = registry.validate(&call.tool_name, &call.input.to_string(), &Effort::of_one());
            (validated.validation, validated.message)
        };
        let read = ReadCall {
            id: call.id,
            model_call_id: call.model_call_id,
            tool_name: call.tool_name,
            input: call.input,
            input_hash: call.input_hash,
            validation,
            message,
            left_out: false,
        };
        NewCall::of(registry, self.rules.context, read, message_id, |call| {
            self.judgement(registry, &call.tool_name, &call.input, &call.input_hash, at)
        })
    }

    fn judgement(
        &self,
        registry: &Registry,
        tool_name: &str,
        input: &serde_json::Value,
        hash: &str,
        at: Millis,
    ) -> Judgement {
        let Some(tool) = registry.tool(tool_name) else {
            return Judgement::denied("there is no such tool");
        };
        let (risk, Rules { tenant, run, creators, context }) = (tool.risk, self.rules);
        let effort = &Effort::of_one();
        let facts = CallFacts { tool_name, risk, input, input_hash: hash, context, creators, effort };
        judge(Policies { agent: &registry.policy, tenant, run }, &[], &facts, at)
    }
}
