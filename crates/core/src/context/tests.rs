//! What contexts hold: what fits, what is pinned, and what summaries stand for.

use proptest::prelude::*;
use uuid::Uuid;

use super::layout::Layout;
use super::select::select;
use super::*;
use crate::id::{CallId, MessageId};
use crate::message::{MessageCall, Role, Summary};

fn message(seq: u64, role: Role, content: &str) -> Message {
    Message::text(MessageId(Uuid::from_u128(seq.into())), seq, role, content)
}

/// `u` a user's message, `p` a pinned one, `a` an answer, `A` a pinned one, `1`..`9` an assistant's message with as many
/// calls and their results.
fn history(plan: &str, words: usize) -> Vec<Message> {
    let mut out = Vec::new();
    let text = "word ".repeat(words);
    for c in plan.chars() {
        let seq = out.len() as u64 + 1;
        let role = if matches!(c, 'u' | 'p') { Role::User } else { Role::Assistant };
        match c.to_digit(10) {
            None => out.push(Message { pinned: matches!(c, 'p' | 'A'), ..message(seq, role, &text) }),
            Some(calls) => {
                let ids: Vec<_> = (0..calls)
                    .map(|i| CallId(Uuid::from_u128(u128::from(seq) * 100 + u128::from(i))))
                    .collect();
                let call = |id: &CallId| MessageCall { id: *id, name: "t".into(), arguments: "{}".into() };
                let tool_calls = ids.iter().map(call).collect();
                out.push(Message { tool_calls, ..message(seq, Role::Assistant, "") });
                for id in ids {
                    let seq = out.len() as u64 + 1;
                    out.push(Message { tool_call_id: Some(id), ..message(seq, Role::Tool, &text) });
                }
            }
        }
    }
    out
}

/// Sums up the history as far as its message number `upto`, from 1.
fn summed_up(history: &mut Vec<Message>, upto: usize, version: u32) {
    let seq = history.len() as u64 + 1;
    let summary = Some(Summary { upto: history[upto - 1].id, version });
    history.push(Message { summary, ..message(seq, Role::User, "it went so and so") });
}

fn source(max_tokens: u64, overflow: Overflow, shrink: bool) -> Source {
    let fixed = Fixed { instructions: 2, tools: 0, output_schema: 0 };
    Source {
        fixed,
        counter: Counter::Estimate,
        corrected_by: 1_000,
        max_tokens,
        overflow,
        shrink,
        lenient: false,
    }
}

fn layout(history: &[Message]) -> Layout<'_> {
    Layout::of(history, Sizes::default().messages(Counter::Estimate, history))
}

struct Built {
    messages: Vec<Message>,
    manifest: Manifest,
}

fn build(source: &Source, history: &[Message]) -> Result<Built, ContextOverflow> {
    let layout = layout(history);
    let selected = select(source, &layout)?;
    let messages = selected.messages(&layout);
    Ok(Built { messages, manifest: manifest::manifest(source, &layout, &selected) })
}

fn dropping(history: &[Message], max_tokens: u64) -> Built {
    build(&source(max_tokens, Overflow::DropOldest, false), history).expect("it fits")
}

fn seqs(built: &Built) -> Vec<u64> {
    built.messages.iter().map(|message| message.seq).collect()
}

fn reasons(built: &Built) -> Vec<&str> {
    built.manifest.omitted.iter().map(|omitted| omitted.reason.as_str()).collect()
}

#[test]
fn the_oldest_turns_go_first_and_are_named() {
    let history = history("ua2ua", 10);
    let all = dropping(&history, 10_000);
    assert_eq!((all.messages.len(), all.manifest.omitted.len()), (history.len(), 0));
    let few = dropping(&history, 60);
    assert_eq!(few.messages[0].role, Role::User);
    assert_eq!(few.messages.len() + few.manifest.omitted.len(), history.len());
    assert!(few.manifest.tokens <= 60 && reasons(&few).iter().all(|why| *why == "over the token budget"));
    assert!(build(&source(60, Overflow::Stop, false), &history).is_err());
}

/// A fallback may count more tokens of what fitted the model before it.
#[test]
fn a_fallback_is_shown_what_must_be_shown() {
    let history = history("ua2ua", 10);
    let lenient = |overflow| Source { lenient: true, ..source(5, overflow, false) };
    for overflow in [Overflow::Stop, Overflow::DropOldest] {
        assert!(build(&source(5, overflow, false), &history).is_err());
        let built = build(&lenient(overflow), &history).expect("it is asked all the same");
        let newest = history.last().map(|message| message.id);
        assert_eq!(built.messages.last().map(|message| message.id), newest);
        assert!(built.manifest.tokens > 5, "and the manifest says how large it is");
    }
}

#[test]
fn a_long_row_of_calls_keeps_what_it_is_for() {
    let history = history("uau1111111", 10);
    let few = dropping(&history, 100);
    assert_eq!(few.messages[0].id, history[2].id);
    assert_eq!(few.messages.last().map(|message| message.id), history.last().map(|message| message.id));
    assert!(few.messages.len() > 3 && few.manifest.omitted.len() > 3 && few.manifest.tokens <= 100);
}

#[test]
fn a_provider_that_says_too_long_gets_less() {
    let history = history("uau", 3);
    let smaller = build(&source(10_000, Overflow::DropOldest, true), &history).expect("it fits");
    assert_eq!(seqs(&smaller), [3]);
    assert_eq!(reasons(&smaller), ["the provider said that the context was too long"; 2]);
    assert!(build(&source(3, Overflow::DropOldest, false), &history).is_err());
}

#[test]
fn pinned_messages_stay_and_so_does_what_a_pinned_answer_answers() {
    let history = history("puauAuauau", 10);
    let few = dropping(&history, 100);
    assert_eq!(seqs(&few), [1, 4, 5, 10], "a pin, a pinned answer with its question, and the newest");
    let parts = few.manifest.parts;
    assert_eq!((parts.pinned, parts.history, parts.instructions), (51, 17, 2));
    assert_eq!(few.manifest.tokens, 70);
    assert!(build(&source(69, Overflow::DropOldest, false), &history).is_err(), "no pin is left out");
}

#[test]
fn a_summary_stands_where_what_it_covers_ends() {
    let mut history = history("uau1ua", 10);
    summed_up(&mut history, 5, 1);
    history.extend([message(9, Role::User, "and now?")]);
    let all = dropping(&history, 10_000);
    assert_eq!(seqs(&all), [8, 6, 7, 9]);
    let why = format!("covered by summary {}", history[7].id);
    assert_eq!(reasons(&all), [why.as_str(); 5]);
    assert_eq!(all.manifest.omitted[0].summary_id, Some(history[7].id));
    assert!(all.manifest.parts.summary > 0);
    summed_up(&mut history, 7, 2);
    let newer = dropping(&history, 10_000);
    assert_eq!(seqs(&newer), [10, 9]);
    assert_eq!(reasons(&newer).last(), Some(&"superseded summary"));
}

#[test]
fn a_task_that_is_summed_up_is_shown_all_the_same() {
    let mut history = history("u111", 10);
    summed_up(&mut history, 5, 1);
    let all = dropping(&history, 10_000);
    assert_eq!(seqs(&all), [1, 8, 6, 7], "the task, the summary of what was done for it, and the rest");
}

#[test]
fn a_summary_whose_messages_are_gone_is_shown_beside_what_is_left() {
    let mut history = history("uaua", 3);
    summed_up(&mut history, 2, 1);
    history.drain(..2);
    assert_eq!(seqs(&dropping(&history, 10_000)), [5, 3, 4]);
}

#[test]
fn a_summary_that_does_not_fit_goes_before_what_the_run_works_on() {
    let mut history = history("uau", 10);
    summed_up(&mut history, 2, 1);
    let few = dropping(&history, 20);
    assert_eq!(seqs(&few), [3]);
    assert_eq!(reasons(&few).last(), Some(&"over the token budget"));
}

#[test]
fn what_providers_told_makes_the_room_smaller() {
    let history = history("uauaua", 10);
    let wide = Source { corrected_by: 2_000, ..source(210, Overflow::DropOldest, false) };
    let built = build(&wide, &history).expect("it fits");
    assert_eq!(built.messages.len(), 6);
    let narrow = Source { max_tokens: 120, ..wide };
    let built = build(&narrow, &history).expect("it fits");
    let parts = built.manifest.parts;
    assert_eq!(seqs(&built), [5, 6]);
    assert_eq!(built.manifest.tokens, 2 * (2 + 2 * 17));
    assert_eq!(parts.instructions + parts.history, built.manifest.tokens);
    assert_eq!((built.manifest.corrected_by, built.manifest.max_tokens), (2_000, 120));
}

#[test]
fn a_manifest_of_older_versions_is_read() {
    let old = r#"{"included": [], "omitted": [{"message_id": "msg_00000000-0000-0000-0000-000000000001",
        "reason": "over the token budget"}], "tokens": 7, "fixed_tokens": 3}"#;
    let read: Manifest = serde_json::from_str(old).expect("read");
    assert_eq!((read.tokens, read.corrected_by, read.omitted[0].summary_id), (7, 1_000, None));
}

/// A context is one that providers accept.
fn accepted(messages: &[Message]) -> Result<(), TestCaseError> {
    let mut open: Vec<CallId> = Vec::new();
    for message in messages {
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
    prop_assert_eq!(messages[0].role, Role::User);
    Ok(())
}

proptest! {
    #[test]
    fn every_context_is_a_history_that_providers_accept(
        plan in "u[upaA1-4]{0,12}",
        max in 20_u64..400,
        shrink: bool,
        summary in prop::option::of(0_usize..8),
        corrected_by in prop::sample::select(vec![500_u32, 1_000, 1_700]),
    ) {
        let mut history = history(&plan, 5);
        // A summary covers whole turns, and never the newest.
        let ends: Vec<usize> = layout(&history).turns.iter().map(|turn| turn.range.end).collect();
        let upto = summary.and_then(|at| ends[..ends.len() - 1].get(at).copied());
        if let Some(upto) = upto {
            summed_up(&mut history, upto, 1);
        }
        let source = Source { corrected_by, ..source(max, Overflow::DropOldest, shrink) };
        if let Ok(built) = build(&source, &history) {
            accepted(&built.messages)?;
            let shown = |message: &Message| built.manifest.included.contains(&message.id);
            let said = || history.iter().filter(|message| message.summary.is_none());
            prop_assert!(shown(said().rfind(|message| message.role == Role::User).expect("a task")));
            prop_assert!(said().filter(|message| message.pinned).all(shown), "pins stay");
            prop_assert!(shown(said().next_back().expect("a newest")));
            prop_assert_eq!(built.messages.len() + built.manifest.omitted.len(), history.len());
            let ids: Vec<MessageId> = built.messages.iter().map(|message| message.id).collect();
            prop_assert_eq!(&ids, &built.manifest.included);
            prop_assert!(shrink || built.manifest.tokens <= max);
            let parts = built.manifest.parts;
            let sum = parts.instructions + parts.summary + parts.pinned + parts.history;
            prop_assert_eq!(sum, built.manifest.tokens);
        }
    }
}
