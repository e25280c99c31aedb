//! The count that the demo's exit status hangs on, and the reading of event streams.

use serde_json::{Value, json};

use super::count::{self, Verdict, Wanted};
use super::sse::{Frame, Frames};
use crate::shop::Books;

fn books(orders: &Value) -> Books {
    serde_json::from_value(json!({ "orders": orders, "refunds": [], "mails": [] })).unwrap()
}

fn order(message: &str, sku: &str, key: &str) -> Value {
    json!({ "order_id": 1, "sku": sku, "quantity": 1, "idempotency_key": key, "run_id": "run_1", "message_id": message })
}

fn entry(key: &str, side_effect: &str) -> Value {
    json!({ "tool_name": "create_order", "run_id": "run_1", "idempotency_key": key, "side_effect": side_effect })
}

const WISH: [Wanted; 1] = [("m1", "order", "CUP-02")];

#[test]
fn everything_once_is_good() {
    let books = books(&json!([order("m1", "CUP-02", "k1")]));
    let runs = [json!({ "id": "run_1", "status": "finished" })];
    let ledger = [entry("k1", "committed")];
    assert_eq!(count::duplicates(&books), 0);
    assert!(count::lost(&books, &runs, &ledger, &WISH).is_empty());
    assert!(count::unaccounted(&books, &ledger).is_empty());
}

#[test]
fn the_same_wish_twice_is_a_duplicate_even_under_another_key() {
    let books = books(&json!([
        order("m1", "CUP-02", "k1"),
        order("m1", "CUP-02", "k2"),
        order("m1", "POT-80", "k3")
    ]));
    assert_eq!(count::duplicates(&books), 1);
    assert_eq!(
        count::unaccounted(&books, &[entry("k1", "committed"), entry("k2", "possible")]),
        ["k2", "k3"]
    );
}

#[test]
fn unended_runs_unmade_effects_and_unmet_wishes_are_lost() {
    let books = books(&json!([]));
    let runs = [json!({ "id": "run_1", "status": "running" })];
    let lost = count::lost(&books, &runs, &[entry("k1", "committed"), entry("k2", "none")], &WISH);
    assert_eq!(lost.len(), 3, "{lost:?}");
}

#[test]
fn the_last_line_is_the_verdict() {
    let mut verdict = Verdict { runs: 8, orders: 4, duplicates: 0, lost: 0, failures: Vec::new() };
    assert!(verdict.good());
    assert_eq!(verdict.to_string(), "demo: 8 runs, 4 orders, 0 duplicates, 0 lost");
    verdict.failures.push("a thing".into());
    assert!(!verdict.good());
    assert_eq!(verdict.to_string().lines().last(), Some("demo: 8 runs, 4 orders, 0 duplicates, 0 lost"));
}

#[test]
fn events_come_whole_out_of_any_pieces() {
    let stream = "retry: 2000\n\n: still here\n\nid: 1\nevent: run.queued\ndata: {\"seq\":1}\n\nevent: model.delta\ndata: {\"text\":\"ä\"}\n\nid: 2\ndata: a\ndata: b\n\nid: 3\ndata: cut";
    let whole = [
        Frame { id: Some(1), data: "{\"seq\":1}".into() },
        Frame { id: None, data: "{\"text\":\"ä\"}".into() },
        Frame { id: Some(2), data: "a\nb".into() },
    ];
    for size in 1..stream.len() {
        let mut frames = Frames::default();
        let got: Vec<Frame> = stream.as_bytes().chunks(size).flat_map(|piece| frames.push(piece)).collect();
        assert_eq!(got, whole, "in pieces of {size}");
    }
}
