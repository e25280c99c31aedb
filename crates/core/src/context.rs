//! ContextBuilder: what does the model see this turn, and what was left out, why?

use serde::{Deserialize, Serialize};

use crate::agent::{ModelSpec, Overflow};
use crate::id::MessageId;
use crate::message::{Message, Role};
use crate::model::{ToolOffer, estimate_tokens};
use crate::registry::Registry;
use crate::run::{Phase, RunState};

/// What a model is shown, and the manifest that says why.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// The messages, oldest first: one that any provider accepts.
    pub messages: Vec<Message>,
    /// What is in it and what isn't.
    pub manifest: Manifest,
}

/// Answers "why did the model not see X?" (contract, "Step").
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Messages shown.
    pub included: Vec<MessageId>,
    /// Messages left out.
    pub omitted: Vec<Omitted>,
    /// Tokens of the whole request, estimated.
    pub tokens: u64,
    /// Tokens of system text and tools.
    pub fixed_tokens: u64,
}

/// A message that the model isn't shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Which.
    pub message_id: MessageId,
    /// Why.
    pub reason: String,
}

/// The history doesn't fit, and nothing more may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the context needs {tokens} tokens, {max_tokens} are allowed")]
pub struct ContextOverflow {
    /// Needed, estimated.
    pub tokens: u64,
    /// Allowed.
    pub max_tokens: u64,
}

/// What the context is built of.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// System text.
    pub system: &'a str,
    /// Tools on offer.
    pub tools: &'a [ToolOffer],
    /// The whole history, oldest first.
    pub history: &'a [Message],
    /// Tokens that the request may have.
    pub max_tokens: u64,
    /// What happens over that.
    pub overflow: Overflow,
    /// The provider said that the last one was too long: half of the history's tokens at most.
    pub shrink: bool,
}

/// The context of a run's next turn, or of the one that is open.
///
/// # Errors
/// As of [`build`].
pub fn of_turn(
    registry: &Registry,
    state: &RunState,
    history: &[Message],
) -> Result<Context, ContextOverflow> {
    build(&source_of_turn(registry, state, history, &registry.offers()))
}

/// The manifest of that context alone. `tokens` tells the size of a message ([`message_tokens`]), however it knows it.
///
/// # Errors
/// As of [`build`].
pub fn manifest_of_turn(
    registry: &Registry,
    state: &RunState,
    history: &[Message],
    tokens: impl Fn(&Message) -> u64,
) -> Result<Manifest, ContextOverflow> {
    select(&source_of_turn(registry, state, history, &registry.offers()), tokens)
        .map(|(manifest, _)| manifest)
}

fn source_of_turn<'a>(
    registry: &'a Registry,
    state: &RunState,
    history: &'a [Message],
    tools: &'a [ToolOffer],
) -> Source<'a> {
    let spec = &registry.spec;
    // A new step begins afresh; only within one a provider's word that it was too long counts.
    let shrink = state.model.shrunk && state.phase != Phase::Boundary;
    let (max_tokens, overflow) = (spec.context.max_tokens, spec.context.overflow);
    Source { system: &spec.instructions, tools, history, max_tokens, overflow, shrink }
}

/// Provider and model that are asked once the context is built: a rebuild stays with its target, a new step begins with
/// the main one.
pub fn target_of_turn<'a>(spec: &'a ModelSpec, state: &RunState) -> (&'a str, &'a str) {
    let index = if state.phase == Phase::Rebuild { state.model.target } else { 0 };
    spec.target(index).unwrap_or((&spec.provider, &spec.model))
}

/// Builds the context: system text and tools always, then the newest turns as far as they fit. A turn is a user's message,
/// or an assistant's with all of its results; turns are never split. The newest is never left out, nor is the newest of a
/// user's: it is what the run works on, and providers want a history to begin with one.
///
/// # Errors
/// Even those two don't fit, or the agent wants no omissions.
pub fn build(source: &Source<'_>) -> Result<Context, ContextOverflow> {
    let (manifest, turns) = select(source, message_tokens)?;
    Ok(Context { messages: turns.concat(), manifest })
}

/// What is in it: the manifest, and the turns that are kept.
fn select<'a>(
    source: &Source<'a>,
    tokens: impl Fn(&Message) -> u64,
) -> Result<(Manifest, Vec<&'a [Message]>), ContextOverflow> {
    let fixed = fixed_tokens(source.system, source.tools);
    let turns = turns(source.history);
    let sizes: Vec<u64> = turns.iter().map(|turn| turn.iter().map(&tokens).sum()).collect();
    let all: u64 = sizes.iter().sum();
    let room = source.max_tokens.saturating_sub(fixed);
    let room = if source.shrink { room.min(all / 2) } else { room };
    let overflow = |tokens: u64| ContextOverflow { tokens: tokens + fixed, max_tokens: source.max_tokens };
    if all > room && source.overflow == Overflow::Stop {
        return Err(overflow(all));
    }
    let (first, task) = kept_turns(&turns, &sizes, room);
    let is_kept = |i: usize| i >= first || Some(i) == task;
    let kept: u64 = sizes.iter().enumerate().filter(|(i, _)| is_kept(*i)).map(|(_, size)| size).sum();
    if kept > room && !source.shrink {
        return Err(overflow(kept));
    }
    Ok(named(source, &turns, is_kept, fixed + kept, fixed))
}

/// The oldest of the newest turns that are kept, and the newest turn of a user's, which is kept with them.
fn kept_turns(turns: &[&[Message]], sizes: &[u64], room: u64) -> (usize, Option<usize>) {
    let Some(newest) = turns.len().checked_sub(1) else { return (0, None) };
    let is_users = |turn: &[Message]| turn.first().is_some_and(|message| message.role == Role::User);
    let task = turns.iter().rposition(|turn| is_users(turn));
    let size_unless_task = |i: usize| if Some(i) == task { 0 } else { sizes[i] };
    let mut total = task.map_or(0, |task| sizes[task]) + size_unless_task(newest);
    let mut first = newest;
    while first > 0 && total + size_unless_task(first - 1) <= room {
        first -= 1;
        total += size_unless_task(first);
    }
    // Answers to what is no longer there are left out with it.
    while first < task.unwrap_or(newest) && !is_users(turns[first]) {
        first += 1;
    }
    (first, task)
}

/// Names what is kept and what isn't.
fn named<'a>(
    source: &Source<'a>,
    turns: &[&'a [Message]],
    is_kept: impl Fn(usize) -> bool,
    tokens: u64,
    fixed_tokens: u64,
) -> (Manifest, Vec<&'a [Message]>) {
    let reason = if source.shrink {
        "the provider said that the context was too long"
    } else {
        "over the token budget"
    };
    let mut manifest = Manifest { tokens, fixed_tokens, ..Manifest::default() };
    let mut kept = Vec::new();
    for (i, turn) in turns.iter().enumerate() {
        let ids = turn.iter().map(|message| message.id);
        if is_kept(i) {
            manifest.included.extend(ids);
            kept.push(*turn);
        } else {
            manifest.omitted.extend(ids.map(|message_id| Omitted { message_id, reason: reason.into() }));
        }
    }
    (manifest, kept)
}

/// Splits a history into turns.
fn turns(history: &[Message]) -> Vec<&[Message]> {
    let mut turns = Vec::new();
    let mut start = 0;
    for (i, message) in history.iter().enumerate() {
        if i > start && message.role != Role::Tool {
            turns.push(&history[start..i]);
            start = i;
        }
    }
    if start < history.len() {
        turns.push(&history[start..]);
    }
    turns
}

/// Tokens of system text and tools, estimated.
fn fixed_tokens(system: &str, tools: &[ToolOffer]) -> u64 {
    let tool = |tool: &ToolOffer| {
        8 + estimate_tokens(&tool.name)
            + estimate_tokens(&tool.description)
            + estimate_tokens(&tool.input_schema.to_string())
    };
    estimate_tokens(system) + tools.iter().map(tool).sum::<u64>()
}

/// Tokens of a message, estimated, with what surrounds it on the wire.
pub fn message_tokens(message: &Message) -> u64 {
    let calls = message
        .tool_calls
        .iter()
        .map(|call| 8 + estimate_tokens(&call.name) + estimate_tokens(&call.arguments));
    4 + estimate_tokens(&message.content) + calls.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CallId;
    use crate::message::MessageCall;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn message(seq: u64, role: Role, content: &str) -> Message {
        let id = MessageId(Uuid::from_u128(seq.into()));
        Message {
            id,
            seq,
            role,
            content: content.into(),
            tool_calls: vec![],
            tool_call_id: None,
            step: None,
            extra: None,
        }
    }

    /// `u` a user's message, `a` an answer, `1`..`9` an assistant's message with as many calls and their results.
    fn history(plan: &str, words: usize) -> Vec<Message> {
        let mut out = Vec::new();
        let text = "word ".repeat(words);
        for c in plan.chars() {
            let seq = out.len() as u64 + 1;
            match c.to_digit(10) {
                None => out.push(message(seq, if c == 'u' { Role::User } else { Role::Assistant }, &text)),
                Some(calls) => {
                    let ids: Vec<_> = (0..calls)
                        .map(|i| CallId(Uuid::from_u128(u128::from(seq) * 100 + u128::from(i))))
                        .collect();
                    let call =
                        |id: &CallId| MessageCall { id: *id, name: "t".into(), arguments: "{}".into() };
                    out.push(Message {
                        tool_calls: ids.iter().map(call).collect(),
                        ..message(seq, Role::Assistant, "")
                    });
                    for id in ids {
                        let seq = out.len() as u64 + 1;
                        out.push(Message { tool_call_id: Some(id), ..message(seq, Role::Tool, &text) });
                    }
                }
            }
        }
        out
    }

    fn source(history: &[Message], max_tokens: u64, shrink: bool) -> Source<'_> {
        Source { system: "be brief", tools: &[], history, max_tokens, overflow: Overflow::DropOldest, shrink }
    }

    #[test]
    fn the_oldest_turns_go_first_and_are_named() {
        let history = history("ua2ua", 10);
        let all = build(&source(&history, 10_000, false)).expect("fits");
        assert_eq!((all.messages.len(), all.manifest.omitted.len()), (history.len(), 0));
        let few = build(&source(&history, 60, false)).expect("fits");
        assert_eq!(few.messages[0].role, Role::User);
        assert_eq!(few.messages.len() + few.manifest.omitted.len(), history.len());
        assert!(few.manifest.tokens <= 60);
        let stop = Source { overflow: Overflow::Stop, ..source(&history, 60, false) };
        assert!(build(&stop).is_err());
    }

    #[test]
    fn a_long_row_of_calls_keeps_what_it_is_for() {
        let history = history("uau1111111", 10);
        let few = build(&source(&history, 100, false)).expect("fits");
        assert_eq!(few.messages[0].id, history[2].id);
        assert_eq!(few.messages.last().map(|message| message.id), history.last().map(|message| message.id));
        assert!(few.messages.len() > 3 && few.manifest.omitted.len() > 3 && few.manifest.tokens <= 100);
    }

    #[test]
    fn a_provider_that_says_too_long_gets_less() {
        let history = history("uau", 3);
        let smaller = build(&source(&history, 10_000, true)).expect("fits");
        assert_eq!(smaller.messages.len(), 1);
        assert_eq!(smaller.manifest.omitted.len(), 2);
        assert!(build(&source(&history, 3, false)).is_err());
    }

    proptest! {
        #[test]
        fn every_context_is_a_history_that_providers_accept(plan in "u[ua1-4]{0,12}", max in 20_u64..400, shrink: bool) {
            let history = history(&plan, 5);
            if let Ok(context) = build(&source(&history, max, shrink)) {
                let mut open: Vec<CallId> = Vec::new();
                for message in &context.messages {
                    match message.role {
                        Role::Tool => {
                            prop_assert_eq!(message.tool_call_id, open.first().copied());
                            open.remove(0);
                        }
                        _ => {
                            prop_assert!(open.is_empty());
                            open = message.tool_calls.iter().map(|call| call.id).collect();
                        }
                    }
                }
                prop_assert!(open.is_empty());
                prop_assert_eq!(context.messages[0].role, Role::User);
                let task = history.iter().rfind(|message| message.role == Role::User).map(|message| message.id);
                prop_assert!(context.manifest.included.contains(&task.expect("a task")));
                prop_assert_eq!(context.messages.len() + context.manifest.omitted.len(), history.len());
                prop_assert!(shrink || context.manifest.tokens <= max);
                prop_assert_eq!(context.messages.last().map(|m| m.id), history.last().map(|m| m.id));
            }
        }
    }
}
