//! Two servers, some runs, and what all that act on them share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use answerable_testkit::{TestDatabase, WebhookReceiver};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::time::sleep;

use super::witness::{Asked, Evidence, Request};
use crate::harness::{Answer, Client, Run, Server, With, World, is_terminal};

/// Runs of a life.
const RUNS: usize = 6;
/// Steps of a run in which the model calls tools.
const STEPS: usize = 4;
/// The tools: one that asks, one that asks two others than who started the run, for a moment only, and one that is allowed.
const TOOLS: [&str; 3] = ["pay", "refund", "note"];
/// Time that people have for a refund, in milliseconds.
const SHORT_MS: u64 = 1_800;

/// A key that people decide with.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) id: String,
    pub(super) client: Client,
}

/// What all that act share.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) servers: [Arc<Server>; 2],
    pub(super) hook: WebhookReceiver,
    /// The key that starts the runs, one that stays, and one that is taken back now and then.
    keys: Mutex<[Key; 3]>,
    pub(super) runs: Vec<String>,
    evidence: Mutex<Evidence>,
    ledger: tokio::sync::Mutex<PgConnection>,
    over: AtomicBool,
}

impl Stage {
    /// Two servers, and runs that begin.
    pub(super) async fn set(seed: u64) -> Self {
        let database = TestDatabase::create().await.expect("a database");
        let server = Arc::new(Server::start(&database).await);
        let other = Arc::new(server.beside().await);
        let ledger = PgConnection::connect(&database.url).await.expect("a connection");
        let world = World::on(Arc::clone(&server), Some(database)).await;
        let hook = WebhookReceiver::start().await.expect("a receiver");
        let body = json!({"url": hook.url(), "events": ["approval.*"]});
        world.client.post("/v1/webhooks", &body).await.is(201);
        let first = new_key(&world, &world.server, &["admin"]).await.expect("a key");
        let keys = [first.clone(), decider(&world).await, decider(&world).await];
        let mut stage = Self {
            world,
            servers: [server, other],
            hook,
            keys: Mutex::new(keys),
            runs: Vec::new(),
            evidence: Mutex::default(),
            ledger: tokio::sync::Mutex::new(ledger),
            over: AtomicBool::new(false),
        };
        let mut rng = StdRng::seed_from_u64(seed);
        for n in 0..RUNS {
            let run = stage.begin(n, &first, &mut rng).await;
            stage.evidence().creators.insert(run.clone(), vec![first.id.clone(), "user:cara".to_owned()]);
            stage.runs.push(run);
        }
        stage
    }

    async fn begin(&self, n: usize, key: &Key, rng: &mut StdRng) -> String {
        let provider = format!("script{n}");
        let mut script: Vec<Value> = (0..STEPS)
            .map(|_| {
                let call = |rng: &mut StdRng| {
                    let tool = TOOLS[rng.random_range(0..TOOLS.len())];
                    json!({"name": tool, "arguments": {"amount": rng.random_range(1..=4)}})
                };
                let calls: Vec<Value> = (0..rng.random_range(1..=3)).map(|_| call(rng)).collect();
                json!({"tool_calls": calls})
            })
            .collect();
        script.push(json!({"final": "That was all."}));
        let spec = json!({"kind": "scripted", "script": script});
        key.client.put(&format!("/v1/providers/{provider}"), &spec).await.ok();
        let body = json!({"agent": self.agent(&provider), "input": "go"});
        let run = key.client.post("/v1/runs", &body).header("x-acting-user", "cara").await.is(201);
        run["id"].as_str().expect("an id").to_owned()
    }

    fn agent(&self, provider: &str) -> Value {
        let world = &self.world;
        let any = json!({"repeat": "allow", "on_uncertain": "observe"});
        let tools = [
            world.write("pay").with(any.clone()).with(json!({"risk": "high"})),
            world.write("refund").with(any.clone()),
            world.write("note").with(any).with(json!({"idempotent": true})),
        ];
        let rule = json!({
            "tool": "refund", "effect": "ask", "approvals": 2, "self_approval": false, "expires_ms": SHORT_MS,
        });
        world.agent(&tools).with(json!({
            "model": {"provider": provider},
            "policy": {"rules": [rule], "max_denials": 100},
            "loop_guard": {"max_repeated_errors": 100},
        }))
    }

    /// What is known so far.
    pub(super) fn evidence(&self) -> MutexGuard<'_, Evidence> {
        self.evidence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the keys.
    pub(super) fn key(&self, n: usize) -> Key {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)[n].clone()
    }

    /// A key of the third place's kind takes its place.
    pub(super) fn replace_key(&self, key: Key) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)[2] = key;
    }

    /// The operator, at one of the servers.
    pub(super) fn operator(&self, server: usize) -> Client {
        self.servers[server].operator()
    }

    /// The tenant's first key, at one of the servers.
    pub(super) fn client(&self, server: usize) -> Client {
        self.key(0).client.at(self.servers[server].url())
    }

    /// The calls that have begun by now.
    pub(super) async fn begun(&self) -> HashSet<String> {
        let mut ledger = self.ledger.lock().await;
        let calls: Vec<String> = sqlx::query_scalar("SELECT 'tc_' || call_id FROM ledger")
            .fetch_all(&mut *ledger)
            .await
            .expect("a ledger that can be read");
        calls.into_iter().collect()
    }

    /// Whether all runs have ended.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns when all runs have ended, whichever server is there to be asked.
    pub(super) async fn all_ended(&self) {
        let is_over = |answer: Answer| {
            // One answer about all of them: between two, a run could go from one status to another.
            let runs = answer.body["data"].as_array().cloned().unwrap_or_default();
            answer.status == 200 && runs.len() == RUNS && runs.iter().all(is_terminal)
        };
        for turn in 0.. {
            let asked = self.client(turn % 2).get("/v1/runs?limit=200").try_send().await;
            if asked.is_ok_and(is_over) {
                break;
            }
            sleep(Duration::from_millis(60)).await;
        }
        self.over.store(true, Ordering::Relaxed);
    }

    /// What the service and the far side tell when all is over; what holds for every run that has ended is checked.
    pub(super) async fn told(&self) {
        let (mut approvals, mut requests) = (Vec::new(), Vec::new());
        for id in &self.runs {
            let run = Run::new(&self.world, id);
            run.ended().await;
            approvals.extend(run.list("approvals").await.as_array().expect("a list").iter().map(asked));
        }
        for tool in TOOLS {
            let request = |request: answerable_testkit::RecordedRequest| {
                let header = |name: &str| request.header(name).expect(name).to_owned();
                let (run, call) = (header("x-run-id"), header("x-tool-call-id"));
                let (key, input, at) = (header("idempotency-key"), request.json(), request.at);
                Request { run, call, tool: tool.to_owned(), input, key, at }
            };
            requests.extend(self.world.tools.requests(tool).into_iter().map(request));
        }
        let mut evidence = self.evidence();
        (evidence.approvals, evidence.requests) = (approvals, requests);
    }
}

fn asked(approval: &Value) -> Asked {
    assert_eq!(approval["kind"], "tool_call", "nothing else is asked in these lives: {approval:#}");
    let text =
        |name: &str| approval[name].as_str().unwrap_or_else(|| panic!("no {name}: {approval:#}")).to_owned();
    Asked {
        id: text("id"),
        run: text("run_id"),
        call: text("tool_call_id"),
        tool: text("tool_name"),
        status: text("status"),
        required: usize::try_from(approval["required"].as_u64().expect("a number")).expect("a small one"),
        used: approval["used_at"].is_string(),
        void: approval["voided_at"].is_string(),
    }
}

/// A new key of the tenant; `None` where no answer came.
pub(super) async fn new_key(world: &World, server: &Server, scopes: &[&str]) -> Option<Key> {
    let path = format!("/v1/tenants/{}/keys", world.tenant);
    let made: Answer =
        server.operator().post(&path, &json!({"name": "k", "scopes": scopes})).try_send().await.ok()?;
    let key = (made.status == 201).then_some(made.body)?;
    let text = |name: &str| key[name].as_str().expect("a text").to_owned();
    Some(Key { id: text("id"), client: world.client.with_key(&text("secret")) })
}

async fn decider(world: &World) -> Key {
    new_key(world, &world.server, &["approvals:decide", "runs:read"]).await.expect("a key")
}
