//! The clerk's decisions letter by letter, and the wire that carries them.

use serde_json::{Value, json};

use super::clerk::{self, Reply};
use super::letter::{Letter, Quantity, Wish};
use super::wire::{self, Request};
use super::{conversation::Conversation, stream};

const TEA: &str = include_str!("../../inbox/01-two-teas.txt");
const HONEY: &str = include_str!("../../inbox/05-honey-in-words.txt");
const QUESTIONS: &str = include_str!("../../inbox/06-two-questions.txt");

/// A conversation about a letter in which each reply's calls were answered as `answers` say, by
/// tool, the n-th answer for the n-th call of that tool.
fn converse(letter: &str, answers: &[(&str, Value)]) -> (Vec<String>, String) {
    let mut messages = vec![
        json!({ "role": "system", "content": "You answer mail." }),
        json!({ "role": "user", "content": letter }),
    ];
    let (mut called, mut left) = (Vec::new(), answers.to_vec());
    for _ in 0..10 {
        let request = Request::read(&json!({ "model": "m", "messages": messages })).unwrap();
        let reply = clerk::next(&request.conversation);
        let message = wire::completion(&request, &reply)["choices"][0]["message"].clone();
        messages.push(message.clone());
        let calls = match reply {
            Reply::Say(text) => return (called, text),
            Reply::Call(calls) => calls,
        };
        for (n, call) in calls.iter().enumerate() {
            called.push(format!("{} {}", call.tool, call.arguments));
            let at = left.iter().position(|(tool, _)| *tool == call.tool).unwrap();
            let (_, answer) = left.remove(at);
            let id = &message["tool_calls"][n]["id"];
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": answer.to_string() }));
        }
    }
    panic!("the clerk never comes to an end: {called:?}");
}

fn customer() -> (&'static str, Value) {
    ("find_customer", json!({ "customer_id": 1, "email": "m@x", "name": "Mara" }))
}

fn stock(available: i64) -> (&'static str, Value) {
    ("check_stock", json!({ "sku": "TEA-250", "available": available, "price_cents": 1450 }))
}

fn order() -> (&'static str, Value) {
    ("create_order", json!({ "order_id": 1101, "total_cents": 2900, "state": "accepted" }))
}

fn not(tool: &'static str, status: &str, code: &str) -> (&'static str, Value) {
    (tool, json!({ "status": status, "error_code": code, "message": "because" }))
}

#[test]
fn letters_are_understood() {
    let order = Letter::read(TEA);
    assert_eq!(order.from, "mara@customers.example");
    let two = Quantity { count: 2, word: None };
    assert_eq!(order.wish, Wish::Order { sku: "TEA-250".into(), quantity: two, by_mail: true });
    let three = Quantity { count: 3, word: Some("three".into()) };
    assert_eq!(
        Letter::read(HONEY).wish,
        Wish::Order { sku: "HON-340".into(), quantity: three, by_mail: false }
    );
    let kettle = Letter::read(include_str!("../../inbox/03-broken-kettle.txt"));
    assert_eq!(kettle.wish, Wish::Refund { order_id: 1002, amount_cents: 12900 });
    let jar = Letter::read(include_str!("../../inbox/08-leaking-jar.txt"));
    assert_eq!(jar.wish, Wish::Refund { order_id: 1003, amount_cents: 875 });
    let both = Wish::Questions { sku: Some("KET-17".into()), order_id: Some(1001) };
    assert_eq!(Letter::read(QUESTIONS).wish, both);
}

#[test]
fn an_order_is_looked_up_checked_made_and_confirmed() {
    let mail = ("send_mail", json!({ "mail_id": 1 }));
    let (called, answer) = converse(TEA, &[customer(), stock(120), order(), mail]);
    let tools: Vec<&str> = called.iter().filter_map(|call| call.split(' ').next()).collect();
    assert_eq!(tools, ["find_customer", "check_stock", "create_order", "send_mail"]);
    assert!(answer.contains("order 1101") && answer.contains("29.00"), "{answer}");
}

#[test]
fn a_number_in_words_goes_wrong_once_and_is_mended() {
    let refused = not("create_order", "rejected", "INVALID_ARGUMENTS");
    let (called, _) = converse(HONEY, &[customer(), stock(60), refused, order()]);
    let slip = called[2].split_once(' ').unwrap().1;
    assert!(serde_json::from_str::<Value>(slip).is_err(), "{slip} is to be no JSON");
    let mended: Value = serde_json::from_str(called[3].split_once(' ').unwrap().1).unwrap();
    assert_eq!(mended["quantity"], 3);
}

#[test]
fn refusals_are_told_and_not_tried_again() {
    for (status, code, word) in [
        ("denied", "PERMISSION_DENIED", "refused"),
        ("failed", "CONFLICT", "did not work"),
        ("uncertain", "SIDE_EFFECT_UNCERTAIN", "can't tell"),
    ] {
        let (called, answer) = converse(TEA, &[customer(), stock(120), not("create_order", status, code)]);
        assert_eq!(called.len(), 3);
        assert!(answer.contains("create_order") && answer.contains(word), "{answer}");
    }
    let (called, answer) = converse(TEA, &[customer(), stock(1)]);
    assert!(called.len() == 2 && answer.contains("sold out"), "{answer}");
}

#[test]
fn questions_are_asked_together() {
    let found = ("find_order", json!({ "order_id": 1001, "state": "shipped" }));
    let (called, answer) = converse(QUESTIONS, &[stock(3), found]);
    assert_eq!(called.len(), 2);
    assert!(answer.contains("3 of KET-17") && answer.contains("shipped"), "{answer}");
}

#[test]
fn a_broken_history_is_refused() {
    let call = json!({ "role": "assistant", "tool_calls": [{ "id": "a", "type": "function", "function": { "name": "t", "arguments": "{}" } }] });
    let answer = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "x" });
    let user = json!({ "role": "user", "content": "hi" });
    for broken in [
        vec![user.clone(), call.clone()],
        vec![user.clone(), call.clone(), user.clone()],
        vec![user.clone(), call.clone(), answer("b")],
        vec![user.clone(), answer("a")],
    ] {
        assert!(Conversation::read(&broken).is_err(), "{broken:?}");
    }
    assert!(Conversation::read(&[user, call, answer("a")]).is_ok());
}

#[test]
fn a_stream_adds_up_to_the_reply() {
    let body = json!({
        "model": "m", "stream": true, "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": QUESTIONS }],
    });
    let request = Request::read(&body).unwrap();
    let reply = clerk::next(&request.conversation);
    let mut arguments = vec![String::new(); 2];
    let chunks = stream::chunks(&request, &reply);
    for chunk in &chunks {
        for call in chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            arguments[at].push_str(call["function"]["arguments"].as_str().unwrap());
        }
    }
    let Reply::Call(calls) = &reply else { panic!("{reply:?}") };
    assert_eq!(arguments, [calls[0].arguments.clone(), calls[1].arguments.clone()]);
    let end = &chunks[chunks.len() - 2]["choices"][0]["finish_reason"];
    assert_eq!(end, "tool_calls");
    assert!(chunks.last().unwrap()["usage"]["total_tokens"].as_u64().unwrap() > 10);
}
