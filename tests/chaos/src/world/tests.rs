//! Each tool played once, and what the far side promises.

use serde_json::{Value, json};

use super::World;
use super::kinds::{FIND, TOOLS, kind_of};
use super::lines::{EFFECTS, Effect, REQUESTS, RequestLine};
use super::mishaps::{Mishap, mishap};
use crate::witness::read;

struct Desk {
    world: World,
    dir: tempfile::TempDir,
    http: reqwest::Client,
}

const SEED: u64 = 7;

impl Desk {
    async fn open() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().expect("a folder");
        let world = World::start(dir.path(), SEED).await.expect("a world");
        Self { world, dir, http: reqwest::Client::builder().no_proxy().build().expect("a client") }
    }

    /// Status and body; `None`: the line was cut.
    async fn call(&self, tool: &str, token: &str, key: &str, attempt: u32) -> Option<(u16, Value)> {
        let url = format!("{}/tool/{tool}", self.world.addresses.tools);
        let request = self.http.post(url).json(&json!({"token": token})).header("idempotency-key", key);
        let request = request.header("x-run-id", "run_1").header("x-attempt", attempt.to_string());
        let response = request.send().await.ok()?;
        Some((response.status().as_u16(), response.json().await.ok()?))
    }

    async fn find(&self, key: &str) -> String {
        for attempt in 1.. {
            let found = self.call(FIND, key, &format!("find-{key}"), attempt).await;
            if let Some((200, found)) = found {
                return found["state"].as_str().expect("a state").to_owned();
            }
        }
        unreachable!("only the first goes wrong")
    }

    async fn truth(&self, key: &str) -> bool {
        let url = format!("{}/truth?key={key}", self.world.addresses.tools);
        let answer: Value = self.http.get(url).send().await.expect("an answer").json().await.expect("JSON");
        answer["applied"].as_bool().expect("a truth")
    }

    async fn settled(&self) {
        let url = format!("{}/settled", self.world.addresses.tools);
        assert_eq!(self.http.post(url).send().await.expect("an answer").status(), 204);
    }

    fn effects(&self) -> Vec<Effect> {
        read(self.dir.path(), EFFECTS).expect("effects")
    }
}

/// A token whose first request meets just this.
fn token(tool: &str, wanted: Mishap) -> String {
    let kind = kind_of(tool).expect("a tool");
    let tokens = (0..).map(|n| format!("t{n}/0.0"));
    let meets = |token: &String| {
        mishap(SEED, kind, token, 1) == wanted && mishap(SEED, kind, token, 2) == Mishap::None
    };
    tokens.into_iter().find(meets).expect("some token")
}

#[tokio::test]
async fn every_tool_answers_and_writes_have_one_effect() {
    let desk = Desk::open().await;
    for tool in TOOLS.into_iter().filter(|tool| ![FIND, "poison"].contains(&tool.name)) {
        let token = token(tool.name, Mishap::None);
        let answer = desk.call(tool.name, &token, &format!("k-{}", tool.name), 1).await;
        let (status, answer) = answer.expect("an answer");
        assert_eq!((status, answer.is_object()), (200, true), "{}", tool.name);
    }
    let done: Vec<String> = desk.effects().into_iter().map(|effect| effect.tool).collect();
    let writes: Vec<&str> = TOOLS.iter().filter(|tool| tool.writes).map(|tool| tool.name).collect();
    assert_eq!(done, writes);
    desk.settled().await;
    let lines: Vec<RequestLine> = read(desk.dir.path(), REQUESTS).expect("requests");
    assert_eq!(lines.iter().filter(|line| line.how.as_deref() == Some("answered 200")).count(), 10);
}

#[tokio::test]
async fn only_tools_that_dedupe_do() {
    let desk = Desk::open().await;
    for (tool, effects) in [("ship", 1), ("pay", 3)] {
        let token = token(tool, Mishap::None);
        for attempt in 1..=2 {
            assert_eq!(desk.call(tool, &token, tool, attempt).await.expect("an answer").0, 200);
        }
        assert_eq!(desk.effects().len(), effects, "{tool}");
    }
}

#[tokio::test]
async fn what_is_cut_off_after_it_was_done_is_found() {
    let desk = Desk::open().await;
    assert_eq!(desk.call("pay", &token("pay", Mishap::CutAfter), "k", 1).await, None);
    assert_eq!((desk.find("k").await.as_str(), desk.effects().len()), ("applied", 1));
}

#[tokio::test]
async fn not_applied_stays_true() {
    let desk = Desk::open().await;
    let token = token("pay", Mishap::CutBefore);
    assert_eq!(desk.call("pay", &token, "k", 1).await, None);
    assert_eq!(desk.find("k").await, "not_applied");
    // The first attempt again, from whoever was stopped meanwhile.
    assert_eq!(desk.call("pay", &token, "k", 1).await.expect("an answer").0, 409);
    // Nothing has come since, so the second attempt may be on its way.
    assert_eq!(desk.find("k").await, "unknown");
    assert_eq!(desk.call("pay", &token, "k", 2).await.expect("an answer").0, 200);
    assert_eq!((desk.find("k").await.as_str(), desk.effects().len()), ("applied", 1));
}

#[tokio::test]
async fn what_never_came_is_not_applied_and_has_no_effect_later() {
    let desk = Desk::open().await;
    assert_eq!(desk.find("k").await, "not_applied");
    assert_eq!(desk.call("pay", &token("pay", Mishap::None), "k", 1).await.expect("an answer").0, 409);
    assert_eq!(desk.effects().len(), 0);
}

#[tokio::test]
async fn what_is_under_way_is_unknown_and_a_person_who_asks_ends_it() {
    let desk = Desk::open().await;
    let token = token("mail", Mishap::LateEffect);
    let asked = desk.call("mail", &token, "k", 1);
    let settled = async {
        while desk.find("k").await != "unknown" {}
        desk.truth("k").await
    };
    let (answer, applied) = tokio::join!(asked, settled);
    assert_eq!((answer.expect("an answer").0, applied, desk.effects().len()), (409, false, 0));
    assert!(!desk.truth("k").await);
}

#[tokio::test]
async fn a_peer_that_goes_away_is_noticed_and_what_it_asked_for_is_done() {
    let desk = Desk::open().await;
    let token = token("slow_ship", Mishap::None);
    let gone = desk.call("slow_ship", &token, "k", 1);
    let _ = tokio::time::timeout(std::time::Duration::from_millis(200), gone).await;
    assert_eq!(desk.call("slow_ship", &token, "k", 2).await.expect("an answer").0, 200);
    assert_eq!(desk.effects().len(), 1);
    desk.settled().await;
    let lines: Vec<RequestLine> = read(desk.dir.path(), REQUESTS).expect("requests");
    assert!(lines.iter().any(|line| line.how.as_deref() == Some("gone") && line.n == 1));
}
