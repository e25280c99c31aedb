//! Which turns are summed up, and what a model is shown of them.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::agent::AgentSpec;
use crate::budget::{Budgets, Estimate};
use crate::context::{Next, next};
use crate::id::{CallId, RunId};
use crate::message::MessageCall;
use crate::run::{Phase, Summing};

const WORDS: usize = 40;

fn registry(max_tokens: u64) -> Registry {
    let spec: AgentSpec =
        serde_json::from_value(json!({"name": "a", "model": {"provider": "p", "model": "m"},
        "context": {"max_tokens": max_tokens, "overflow": "summarize"}}))
        .expect("an agent");
    Registry::compile(spec).expect("it compiles")
}

fn state() -> RunState {
    let state = RunState::accepted(RunId(Uuid::nil()), Budgets::default(), 1, 0, None);
    RunState { phase: Phase::Boundary, ..state }
}

/// `n` users' messages and answers in turn, the words of each numbered.
fn history(n: u64) -> Vec<Message> {
    let said = |seq: u64| {
        let role = if seq % 2 == 1 { Role::User } else { Role::Assistant };
        Message::text(MessageId(Uuid::from_u128(seq.into())), seq, role, format!("w{seq} ").repeat(WORDS))
    };
    (1..=n).map(said).collect()
}

fn plan(registry: &Registry, state: &RunState, history: &[Message]) -> Option<Plan> {
    match next(registry, state, history, &Sizes::default()) {
        Next::Summary(plan) => Some(plan),
        Next::Turn(..) | Next::Overflow(_) => None,
    }
}

fn summed_up(history: &mut Vec<Message>, plan: &Plan) {
    let seq = history.len() as u64 + 1;
    let summary = Some(crate::message::Summary { upto: plan.upto, version: plan.version });
    let id = MessageId(Uuid::from_u128(seq.into()));
    history.push(Message { summary, ..Message::text(id, seq, Role::User, "so it went") });
}

fn asked(registry: &Registry, state: &RunState, history: &[Message], plan: Plan) -> SummaryText {
    let estimate = Estimate::of(&plan.size, None);
    let summing = Summing { task: Some(plan.into()), ..Summing::default() };
    let state = RunState { phase: Phase::Summary, summing, estimate, ..state.clone() };
    summary_request(registry, &state, history, &Sizes::default()).expect("a request")
}

fn place(history: &[Message], id: MessageId) -> usize {
    history.iter().position(|message| message.id == id).expect("a message")
}

#[test]
fn what_fits_is_not_summed_up_and_what_does_not_leaves_half_the_room() {
    let registry = registry(1_000);
    let history = history(23);
    assert_eq!(plan(&registry, &state(), &history[..22]), None);
    let plan = plan(&registry, &state(), &history).expect("it is too long");
    let upto = place(&history, plan.upto);
    let sizes = Sizes::default().messages(Counter::Estimate, &history);
    let left: u64 = sizes[upto + 1..].iter().sum::<u64>() + u64::from(plan.max_tokens);
    assert!(left <= 500 && left + sizes[upto] > 500, "{left}");
    assert_eq!((plan.version, plan.covered as usize), (1, upto + 1));
    assert!(plan.size.tokens() <= 1_000, "the request itself has a limit: {:?}", plan.size);
}

#[test]
fn the_next_one_takes_the_former_one_in() {
    let registry = registry(1_000);
    let mut history = history(31);
    let first = plan(&registry, &state(), &history).expect("it is too long");
    summed_up(&mut history, &first);
    assert_eq!(plan(&registry, &state(), &history), None, "it is reused");
    let more = super::tests::history(50);
    history.extend(
        more.into_iter()
            .skip(31)
            .map(|message| Message { seq: message.seq + 1, ..message })
            .map(|m| Message { id: MessageId(Uuid::from_u128(1_000 + u128::from(m.seq))), ..m }),
    );
    let second = plan(&registry, &state(), &history).expect("it has outgrown its room again");
    assert_eq!(second.version, 2);
    assert!(place(&history, second.upto) > place(&history, first.upto));
    let text = asked(&registry, &state(), &history, second.clone());
    assert!(text.transcript.starts_with("so it went\n\n"), "{}", text.transcript);
    assert!(!text.transcript.contains("w1 ") && text.transcript.contains("assistant: w"));
    assert!(text.system.contains("ids"));
}

#[test]
fn a_history_that_no_request_holds_goes_in_bites() {
    let registry = registry(600);
    let mut history = history(101);
    let (mut bites, mut before) = (0, 0);
    while let Some(plan) = plan(&registry, &state(), &history) {
        assert!(plan.size.tokens() <= 600, "{plan:?}");
        let upto = place(&history, plan.upto);
        assert!(bites == 0 || upto > before, "each goes further");
        let text = asked(&registry, &state(), &history, plan.clone());
        let tokens = Counter::Estimate.text(&text.transcript) + Counter::Estimate.text(&text.system);
        assert!(tokens <= plan.size.counted, "{tokens} of {:?}", plan.size);
        (before, bites) = (upto, bites + 1);
        summed_up(&mut history, &plan);
    }
    assert!(bites > 2, "{bites}");
    assert!(matches!(next(&registry, &state(), &history, &Sizes::default()), Next::Turn(..)));
}

#[test]
fn long_messages_lose_their_middle_and_a_long_turn_is_one_bite() {
    let registry = registry(2_000);
    let mut history = history(3);
    let calls: Vec<CallId> = (0..20).map(|n| CallId(Uuid::from_u128(500 + n))).collect();
    let call = |id: &CallId| MessageCall { id: *id, name: "look".into(), arguments: r#"{"n":1}"#.into() };
    let (id, tool_calls) = (MessageId(Uuid::from_u128(400)), calls.iter().map(call).collect());
    history.push(Message { tool_calls, ..Message::text(id, 4, Role::Assistant, "") });
    for (n, id) in calls.iter().enumerate() {
        let message = MessageId(Uuid::from_u128(600 + n as u128));
        let content = format!("begin{n} {} end{n}", "x".repeat(3_000));
        history.push(Message {
            tool_call_id: Some(*id),
            ..Message::text(message, 5 + n as u64, Role::Tool, content)
        });
    }
    history.extend([Message::text(MessageId(Uuid::from_u128(700)), 30, Role::Assistant, "looked at all")]);
    let first = plan(&registry, &state(), &history).expect("it is too long");
    summed_up(&mut history, &first);
    let plan = match plan(&registry, &state(), &history) {
        Some(second) => second,
        None => first,
    };
    let text = asked(&registry, &state(), &history[..history.len() - 1], plan.clone());
    assert!(text.transcript.contains("call of look: {\"n\":1}") && text.transcript.contains("characters…"));
    assert!(text.transcript.contains("begin19") && text.transcript.contains("end19"), "{}", text.transcript);
    assert!(plan.size.tokens() <= 2_000, "{plan:?}");
}

#[test]
fn a_task_that_stays_is_summed_up_with_what_was_done_for_it() {
    let registry = registry(700);
    let mut history = history(1);
    history[0].content = "the task ".repeat(280);
    let (calls, id) =
        ([CallId(Uuid::from_u128(1))], |n: u64| MessageId(Uuid::from_u128(100 + u128::from(n))));
    for n in 0..6 {
        let call = MessageCall { id: calls[0], name: "look".into(), arguments: "{}".into() };
        let tool_calls = vec![call];
        history.push(Message { tool_calls, ..Message::text(id(2 * n), 2 + 2 * n, Role::Assistant, "") });
        let content = "found ".repeat(10);
        let tool_call_id = Some(calls[0]);
        history
            .push(Message { tool_call_id, ..Message::text(id(2 * n + 1), 3 + 2 * n, Role::Tool, content) });
    }
    assert_eq!(plan(&registry, &state(), &history), None, "what is always shown leaves too little room");
    history[0].content = "the task ".repeat(230);
    let plan = plan(&registry, &state(), &history).expect("it is too long");
    assert!(place(&history, plan.upto) >= 2, "a look is won");
    let text = asked(&registry, &state(), &history, plan);
    assert!(text.transcript.contains("the task") && text.transcript.contains("call of look"), "{text:?}");
}

#[test]
fn nothing_is_asked_where_it_would_not_help() {
    let registry = registry(400);
    let long = Message::text(MessageId(Uuid::from_u128(900)), 9, Role::User, "word ".repeat(310));
    let mut huge = history(4);
    huge.push(long);
    assert_eq!(plan(&registry, &state(), &huge), None, "the newest turn alone takes the room");
    assert!(matches!(next(&registry, &state(), &huge, &Sizes::default()), Next::Turn(..)));
    for summing in [
        Summing { given_up: true, ..Summing::default() },
        Summing { made: 8, ..Summing::default() },
        Summing { failures: 3, ..Summing::default() },
    ] {
        let state = RunState { summing, ..state() };
        assert_eq!(plan(&registry, &state, &history(31)), None);
        assert!(matches!(next(&registry, &state, &history(31), &Sizes::default()), Next::Turn(..)));
    }
}

#[test]
fn short_messages_leave_their_share_to_long_ones() {
    assert_eq!(level(&[10, 500, 20, 500], 330), 150);
    assert_eq!(level(&[10, 20], 30), u64::MAX);
    assert_eq!(level(&[10, 20], 0), 0);
    assert_eq!(without_middle("abcdefghij", 6, 10), "abcd […4 characters…] ij");
    assert_eq!(without_middle("ab", 1, 2), "a […1 characters…] ");
}
