//! The people that runs wait for: they decide about calls, and say what became of effects that nobody knows of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::ask::{Answer, Ask, Caller};
use super::lines::Told;
use super::{LOOK, Office};
use crate::witness::drawn;

/// How long one thing is tried.
const PATIENCE: Duration = Duration::from_secs(60);

/// A person's life: looks into the inbox and deals with what nobody has in hand.
pub(super) async fn decide(office: Arc<Office>, who: usize) {
    let me = office.desk.people[who].clone();
    loop {
        let ask = Ask::get("/v1/approvals?status=pending&limit=100");
        let inbox = me.ask(&ask).await.map(|answer| answer.body).unwrap_or_default();
        for approval in inbox["data"].as_array().into_iter().flatten() {
            let id = approval["id"].as_str().unwrap_or_default();
            if !office.book.take(id) {
                continue;
            }
            // Some wait, so that servers die while runs wait for people.
            let thinks = drawn(office.settings.seed, &["thinks", id]);
            if thinks.is_multiple_of(4) {
                sleep(Duration::from_millis(thinks / 4 % 1500)).await;
            }
            match approval["kind"].as_str() {
                Some("uncertain_effect") => settle(&office, &me, approval).await,
                _ => judge(&office, who, approval).await,
            }
            office.book.lay_down(id);
        }
        sleep(LOOK).await;
    }
}

/// A call: mostly approved, sometimes with other arguments, sometimes denied, sometimes both at once.
async fn judge(office: &Office, who: usize, approval: &Value) {
    let id = approval["id"].as_str().unwrap_or_default();
    let (me, other) = (&office.desk.people[who], &office.desk.people[1 - who]);
    let approve = json!({"decision": "approve", "input_hash": approval["input_hash"]});
    let deny = json!({"decision": "deny", "reason": "not today"});
    match drawn(office.settings.seed, &["decides", id]) % 10 {
        0..2 => send(office, me, approval, deny).await,
        2..4 => {
            let mut input = approval["input"].clone();
            input["amount"] = 7.into();
            send(office, me, approval, json!({"decision": "approve", "input": input})).await;
        }
        4..7 => {
            let (first, second) = (send(office, me, approval, approve), send(office, other, approval, deny));
            tokio::join!(first, second);
        }
        _ => send(office, me, approval, approve).await,
    }
}

async fn send(office: &Office, person: &Caller, approval: &Value, body: Value) {
    let id = approval["id"].as_str().unwrap_or_default();
    let word = body["decision"].as_str().unwrap_or_default().to_owned();
    let ask =
        Ask::post(format!("/v1/approvals/{id}/decision"), body.clone()).until(Instant::now() + PATIENCE);
    let Some(answer) = person.ask(&ask.once(format!("decide-{id}-{word}"))).await else { return };
    told_or_odd(office, approval, "decision", id, word, &body["input"], &answer);
}

/// An effect that nobody knows of: the person asks the far side, which from then on stays with its word.
async fn settle(office: &Office, me: &Caller, approval: &Value) {
    let (id, run_id) = (text(approval, "id"), text(approval, "run_id"));
    let until = Instant::now() + PATIENCE;
    let entries = me.list(&format!("/v1/runs/{run_id}/ledger"), until).await.unwrap_or_default();
    let Some(entry) = entries.iter().find(|entry| entry["tool_call_id"] == approval["tool_call_id"]) else {
        return;
    };
    let Some(applied) = office.truth(text(entry, "idempotency_key")).await else { return };
    let word = match (drawn(office.settings.seed, &["settles", id]) % 3, applied) {
        (0, _) => return resolve(office, me, approval, entry, applied).await,
        (1, true) => "answer",
        (_, true) => "approve",
        (_, false) => "deny",
    };
    let body = if word == "answer" {
        json!({"decision": word, "content": "It was done."})
    } else {
        json!({"decision": word})
    };
    send(office, me, approval, body).await;
}

async fn resolve(office: &Office, me: &Caller, approval: &Value, entry: &Value, applied: bool) {
    let word = if applied { "applied" } else { "not_applied" };
    let path = format!("/v1/runs/{}/ledger/{}/resolve", text(approval, "run_id"), text(entry, "id"));
    let ask = Ask::post(path, json!({"state": word})).until(Instant::now() + PATIENCE);
    let Some(answer) = me.ask(&ask.once(format!("resolve-{}", text(entry, "id")))).await else { return };
    told_or_odd(office, approval, "settled", text(entry, "id"), word.to_owned(), &Value::Null, &answer);
}

/// 409: the other one was first, or the entry is settled; 410: the run was cancelled meanwhile.
fn told_or_odd(
    office: &Office,
    of: &Value,
    what: &str,
    id: &str,
    word: String,
    input: &Value,
    answer: &Answer,
) {
    if answer.is_ok() {
        office.book.told(Told {
            what: what.to_owned(),
            run_id: text(of, "run_id").to_owned(),
            id: id.to_owned(),
            word,
            shown: text(of, "kind").to_owned(),
            input: input.clone(),
            ..Told::default()
        });
    } else if ![409, 410].contains(&answer.status) {
        office.book.odd(&format!("{what} {id} {word}"), answer);
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}
