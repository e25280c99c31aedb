//! People decide: rightly, wrongly, twice, at once, in bulk, by a link, and too late.

use std::time::{Duration, Instant};

use futures::future::join;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::stage::Stage;
use super::witness::{Answered, Remember, Vote, Word};
use crate::harness::{Answer, Client};

/// Users that keys speak for. The runs were started for `cara`.
const USERS: [Option<&str>; 4] = [None, Some("ann"), Some("bob"), Some("cara")];

/// Who decides, with which key, and where.
struct Person {
    client: Client,
    key: String,
    user: Option<&'static str>,
}

impl Person {
    fn any(stage: &Stage, rng: &mut StdRng) -> Self {
        let key = stage.key(rng.random_range(0..3));
        let client = key.client.at(stage.servers[rng.random_range(0..2)].url());
        Self { client, key: key.id, user: USERS.choose(rng).copied().flatten() }
    }

    fn by(&self) -> String {
        self.user.map_or_else(|| self.key.clone(), |user| format!("user:{user}"))
    }

    /// Sends something in their name; `None`: no answer came, or none that says what was done.
    async fn send(&self, path: &str, body: &Value) -> Option<Answer> {
        let ask = self.client.post(path, body);
        let ask = match self.user {
            Some(user) => ask.header("x-acting-user", user),
            None => ask,
        };
        ask.try_send().await.ok().filter(|answer| answer.status != 503)
    }
}

/// Decides until all runs have ended.
pub(super) async fn decide(stage: &Stage, rng: &mut StdRng) {
    while !stage.is_over() {
        let looker = stage.client(rng.random_range(0..2));
        let inbox = looker.get("/v1/approvals?status=pending&limit=20").try_send().await;
        let inbox =
            inbox.ok().filter(|answer| answer.status == 200).map(|answer| answer.body["data"].clone());
        let open = inbox.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let pause = rng.random_range(5..80);
        if let Some(approval) = open.choose(rng) {
            one(stage, approval, open, rng).await;
        }
        sleep(Duration::from_millis(pause)).await;
    }
}

async fn one(stage: &Stage, approval: &Value, open: &[Value], rng: &mut StdRng) {
    let person = Person::any(stage, rng);
    match rng.random_range(0..100) {
        0..40 => single(stage, &person, approval, &decision(approval, Word::Approve, rng)).await,
        40..46 => single(stage, &person, approval, &decision(approval, Word::Deny, rng)).await,
        46..50 => single(stage, &person, approval, &decision(approval, Word::Answer, rng)).await,
        50..60 => {
            let amount = approval["input"]["amount"].as_i64().unwrap_or(0) + rng.random_range(-1..=2);
            let edit = json!({"decision": "approve", "input": {"amount": amount}});
            single(stage, &person, approval, &edit).await;
        }
        60..72 => {
            let scope = if rng.random() { "tenant" } else { "run" };
            let matching = if rng.random() { "tool" } else { "exact_input" };
            let remember = json!({"scope": scope, "match": matching});
            single(stage, &person, approval, &json!({"decision": "approve", "remember": remember})).await;
        }
        72..80 => {
            let other = Person::any(stage, rng);
            let words = if rng.random() { [Word::Approve, Word::Deny] } else { [Word::Approve; 2] };
            let [one, another] = words.map(|word| decision(approval, word, rng));
            join(single(stage, &person, approval, &one), single(stage, &other, approval, &another)).await;
        }
        80..90 => bulk(stage, &person, open, rng).await,
        _ => link(stage, approval, rng).await,
    }
}

fn decision(approval: &Value, word: Word, rng: &mut StdRng) -> Value {
    let mut decision = match word {
        Word::Approve => json!({"decision": "approve"}),
        Word::Deny => json!({"decision": "deny", "reason": "not today"}),
        Word::Answer => json!({"decision": "answer", "content": "done by hand"}),
    };
    if rng.random() {
        decision["input_hash"] = approval["input_hash"].clone();
    }
    decision
}

/// One decision of one person, written down before it is sent.
async fn single(stage: &Stage, person: &Person, approval: &Value, decision: &Value) {
    let place = write_down(stage, approval, decision, person.by(), person.key.clone());
    let path = format!("/v1/approvals/{}/decision", approval["id"].as_str().expect("an id"));
    let answer = person.send(&path, decision).await.map(|answer| answered(answer.status, &answer.body));
    heard(stage, place, answer);
}

/// Several at once, each judged on its own.
async fn bulk(stage: &Stage, person: &Person, open: &[Value], rng: &mut StdRng) {
    let chosen: Vec<&Value> = open.sample(rng, 4).collect();
    let words = chosen.iter().map(|_| if rng.random_range(0..5) == 0 { Word::Deny } else { Word::Approve });
    let words: Vec<Word> = words.collect();
    let mut decisions = Vec::new();
    let mut places = Vec::new();
    for (approval, word) in chosen.iter().zip(words) {
        let mut decision = decision(approval, word, rng);
        places.push(write_down(stage, approval, &decision, person.by(), person.key.clone()));
        decision["approval_id"] = approval["id"].clone();
        decisions.push(decision);
    }
    let answer = person.send("/v1/approvals/decisions", &json!({"decisions": decisions})).await;
    for (n, place) in places.into_iter().enumerate() {
        let of_it = |answer: &Answer| match answer.status {
            200 => of_result(&answer.body["results"][n]),
            refused => answered(refused, &Value::Null),
        };
        heard(stage, place, answer.as_ref().map(of_it));
    }
}

fn of_result(result: &Value) -> Answered {
    let status = result["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    answered(status.expect("a status"), &result["approval"])
}

fn answered(status: u16, approval: &Value) -> Answered {
    Answered { status, decides: approval["status"] != "pending" }
}

/// By the link of the approval's webhook, if that has come.
async fn link(stage: &Stage, approval: &Value, rng: &mut StdRng) {
    let told = stage.hook.deliveries().into_iter().map(|delivery| delivery.json());
    let of_it = |told: &Value| told["data"]["approval"]["id"] == approval["id"];
    let Some(url) = told
        .into_iter()
        .find(of_it)
        .and_then(|told| told["data"]["decision_url"].as_str().map(str::to_owned))
    else {
        return;
    };
    let path = &url[url.find("/v1/").expect("a path")..];
    let server = &stage.servers[rng.random_range(0..2)];
    let word = if rng.random_range(0..4) == 0 { Word::Deny } else { Word::Approve };
    let mut decision = decision(approval, word, rng);
    if rng.random_range(0..3) == 0 {
        // What no link may: it is refused, or the judge hears of it.
        decision["remember"] = json!({"scope": "tenant", "match": "tool"});
    }
    let place = write_down(stage, approval, &decision, "link".to_owned(), "link".to_owned());
    let answer =
        server.stranger().post(path, &decision).try_send().await.ok().filter(|answer| answer.status != 503);
    heard(stage, place, answer.map(|answer| answered(answer.status, &answer.body)));
}

fn write_down(stage: &Stage, approval: &Value, decision: &Value, by: String, key: String) -> usize {
    let word = match decision["decision"].as_str() {
        Some("approve") => Word::Approve,
        Some("deny") => Word::Deny,
        _ => Word::Answer,
    };
    let shown = &approval["input"];
    let remember = decision.get("remember").map(|remember| Remember {
        whole_tenant: remember["scope"] == "tenant",
        exact_input: remember["match"] == "exact_input",
    });
    let vote = Vote {
        approval: approval["id"].as_str().expect("an id").to_owned(),
        word,
        input: decision.get("input").unwrap_or(shown).clone(),
        by,
        key,
        remember,
        sent: Instant::now(),
        answer: None,
    };
    let mut evidence = stage.evidence();
    evidence.votes.push(vote);
    evidence.votes.len() - 1
}

fn heard(stage: &Stage, place: usize, answer: Option<Answered>) {
    stage.evidence().votes[place].answer = answer;
}
