//! Whether a case can be played where it is to be played.

use serde_json::Value;

use crate::case::{Action, Answer, Called, Case, Condition, Model, Reply, Tools, What};

/// What a case would be played with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// The server can call this machine: scripted models and tools answer over HTTP.
    pub reach: bool,
    /// Each play has a tenant of its own.
    pub own_tenant: bool,
    /// A real model takes the place of the case's.
    pub live_model: bool,
    /// The agent's real tools take the place of the case's.
    pub live_tools: bool,
}

/// Why a case can't be played so; `None` if it can.
#[must_use]
pub fn obstacle(case: &Case, stage: Stage) -> Option<String> {
    model(case, stage)
        .or_else(|| tools(case, stage))
        .or_else(|| if stage.own_tenant { None } else { tenant(case) })
        .or_else(|| if stage.reach { None } else { out_of_reach(case, stage) })
        .map(str::to_owned)
}

fn model(case: &Case, stage: Stage) -> Option<&'static str> {
    match &case.model {
        Model::Live if !stage.live_model => Some("it needs a real model: give --model"),
        Model::Replies(replies) if stage.live_model => {
            let is_odd = !case.fallbacks.is_empty() || replies.iter().any(|reply| !is_ordinary(reply));
            is_odd.then_some("its model is made to fail, which a real one can't be")
        }
        _ => None,
    }
}

/// Whether a reply is one that any model may give.
fn is_ordinary(reply: &Reply) -> bool {
    let What::Said(said) = &reply.what else { return false };
    reply.cut_after.is_none() && said.finish_reason.is_none() && said.message.is_empty()
}

fn tools(case: &Case, stage: Stage) -> Option<&'static str> {
    let is_live = stage.live_tools || matches!(case.tools, Tools::Live);
    let expect = case.expect.as_ref();
    let counts = expect.is_some_and(|expect| !expect.effects.is_empty() || !expect.requests.is_empty());
    (is_live && counts).then_some("it counts what reaches its tools, which real ones don't tell")
}

fn tenant(case: &Case) -> Option<&'static str> {
    (!case.secrets.is_empty())
        .then_some("it brings secrets: give ANSWERABLE_OPERATOR_KEY, or leave --url out")
}

/// What only works where the server can call this machine: elsewhere the model is the server's own scripted one, and
/// tools are played by answering `client` calls.
fn out_of_reach(case: &Case, stage: Stage) -> Option<&'static str> {
    let is_live = stage.live_tools || matches!(case.tools, Tools::Live);
    let waits = |action: &Action| matches!(action, Action::Wait(Condition::Called(..) | Condition::Asked(_)));
    let counts = case.expect.as_ref().is_some_and(|expect| expect.model_requests.is_some());
    match () {
        () if !stage.live_model && !is_sayable(case) => {
            Some("its model does more than speak, which needs a server that can call this machine")
        }
        () if !is_live && !is_answerable(case) => {
            Some("its tools do more than answer, which needs a server that can call this machine")
        }
        () if counts || case.actions.iter().any(waits) => {
            Some("it watches requests, which needs a server that can call this machine")
        }
        () => None,
    }
}

/// Whether a provider of kind `scripted` can say all that the model says.
fn is_sayable(case: &Case) -> bool {
    let Model::Replies(replies) = &case.model else { return true };
    let is_plain = |reply: &Reply| match &reply.what {
        What::Said(said) => {
            let is_object = |call: &Called| call.arguments.is_object() || call.arguments.is_null();
            said.text.is_empty() != said.tool_calls.is_empty() && said.tool_calls.iter().all(is_object)
        }
        _ => false,
    };
    let is_here = |reply: &Reply| reply.provider.as_deref().is_none_or(|name| name == case.provider());
    let is_sayable =
        |reply: &Reply| is_ordinary(reply) && reply.delay.is_zero() && is_here(reply) && is_plain(reply);
    case.fallbacks.is_empty() && replies.iter().all(is_sayable)
}

/// Whether answers to `client` calls can stand for what the tools do.
fn is_answerable(case: &Case) -> bool {
    let is_plain = |answer: &Answer| {
        answer.status < 500 && !answer.drop && answer.delay.is_zero() && answer.headers.is_empty()
    };
    let are_plain = match &case.tools {
        Tools::Scripted(scripts) => {
            scripts.values().all(|script| !script.dedupe && script.answers.iter().all(is_plain))
        }
        Tools::Recorded(calls) => calls.iter().all(|call| is_plain(&call.answer())),
        Tools::Live => true,
    };
    let tools = case.agent.get("tools").and_then(Value::as_array).into_iter().flatten();
    let reconciles = |tool: &Value| tool.get("reconcile").is_some_and(|reconcile| !reconcile.is_null());
    are_plain && case.secrets.is_empty() && !tools.into_iter().any(reconciles)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
