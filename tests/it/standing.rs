//! What a key opened ends with it: streams, waits and bodies that are under way, at every server.

use std::time::{Duration, Instant};

use answerable_testkit::ModelReply;
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::harness::{Answer, Client, EventStream, Fits, Run, Server, World, until};

/// What "within seconds" may be, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(15);

/// A tenant on two servers, with a run that goes on until it is let.
struct Two {
    world: World,
    other: Server,
    run: String,
}

/// Streams and waits that are held open, at both servers, each with a key of its own.
struct Open {
    keys: Vec<String>,
    secrets: Vec<String>,
    streams: Vec<EventStream>,
    waits: Vec<JoinHandle<Answer>>,
}

impl Two {
    async fn start() -> Self {
        let world = World::alone().await;
        let other = world.server.beside().await;
        world.model.script("m", [ModelReply::text("Done.").held()]);
        let run = world.start(&world.agent(&[])).await.id;
        Self { world, other, run }
    }

    fn run(&self) -> Run<'_> {
        self.world.run(&json!({"id": self.run}))
    }

    fn key_path(&self, key: &str) -> String {
        format!("/v1/tenants/{}/keys/{key}", self.world.tenant)
    }

    async fn key(&self) -> (String, String) {
        let path = format!("/v1/tenants/{}/keys", self.world.tenant);
        let body = json!({"name": "k", "scopes": ["runs:read"]});
        let made = self.world.server.operator().post(&path, &body).await.is(201);
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        (text("id"), text("secret"))
    }

    /// Opens them, and returns when all are held.
    async fn open(&self) -> Open {
        let (mut keys, mut secrets, mut streams, mut waits) = (vec![], vec![], vec![], vec![]);
        for url in [self.world.server.url(), self.other.url()] {
            for is_wait in [false, true] {
                let (id, secret) = self.key().await;
                let client = self.world.client.with_key(&secret).at(url);
                if is_wait {
                    let path = self.run().path("/wait?timeout=60");
                    waits.push(tokio::spawn(async move { client.get(&path).await }));
                    self.used(&id).await;
                } else {
                    let mut stream = client.stream(&self.run().path("/events"), None).await;
                    stream.next().await.expect("an event");
                    streams.push(stream);
                }
                keys.push(id);
                secrets.push(secret);
            }
        }
        Open { keys, secrets, streams, waits }
    }

    /// Returns when the key was let in somewhere.
    async fn used(&self, key: &str) {
        let (operator, path) = (self.world.server.operator(), self.key_path(key));
        until("the key is used", async || !operator.get(&path).await.ok()["last_used_at"].is_null()).await;
    }

    async fn execute(&self, statement: &'static str, id: &str) {
        let mut connection = PgConnection::connect(self.world.database_url()).await.expect("a connection");
        let id: Uuid = id.split_once('_').expect("an id").1.parse().expect("an id");
        sqlx::query(statement).bind(id).execute(&mut connection).await.expect("a statement that works");
    }

    /// The run ends, and whoever may watches it to its end.
    async fn let_go(&self, watching: EventStream) {
        self.world.model.release();
        assert_eq!(
            watching.rest().await.last().map(|event| event.kind.clone()),
            Some("run.finished".to_owned())
        );
        self.run().ended().await;
    }
}

impl Open {
    /// All of it is over soon, and nothing that happens afterwards is told.
    async fn ends(self, status: u16) {
        let begun = Instant::now();
        for wait in self.waits {
            let answer = tokio::time::timeout(SOON, wait).await.expect("the wait ends").expect("an answer");
            assert_eq!(answer.status, status, "{answer}");
        }
        for stream in self.streams {
            let rest = tokio::time::timeout(SOON, stream.rest()).await.expect("the stream ends");
            assert!(rest.iter().all(|event| event.kind != "run.finished"), "{rest:?}");
        }
        assert!(begun.elapsed() < SOON);
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_what_it_opened_at_every_server() {
    let two = Two::start().await;
    let watching = two.world.client.at(two.other.url()).stream(&two.run().path("/events"), None).await;
    let open = two.open().await;
    for key in &open.keys {
        two.world.server.operator().delete(&two.key_path(key)).await.is(204);
    }
    open.ends(401).await;
    two.let_go(watching).await;
}

#[tokio::test]
async fn nobody_needs_to_hear_of_a_revocation() {
    let two = Two::start().await;
    let watching = two.world.client.stream(&two.run().path("/events"), None).await;
    let open = two.open().await;
    let secrets = open.secrets.clone();
    for key in &open.keys {
        // No server is told of this.
        two.execute("UPDATE api_keys SET revoked_at = now() WHERE key_id = $1", key).await;
    }
    open.ends(401).await;
    for (secret, url) in secrets.iter().zip([two.world.server.url(), two.world.server.url(), two.other.url()])
    {
        let client = two.world.client.with_key(secret).at(url);
        client.get("/v1/runs").await.refused(401, "unauthorized");
    }
    two.let_go(watching).await;
}

#[tokio::test]
async fn a_key_that_expires_ends_what_it_opened() {
    let two = Two::start().await;
    let watching = two.world.client.stream(&two.run().path("/events"), None).await;
    let open = two.open().await;
    for key in &open.keys {
        two.execute("UPDATE api_keys SET expires_at = now() + interval '1 second' WHERE key_id = $1", key)
            .await;
    }
    open.ends(401).await;
    two.let_go(watching).await;
}

#[tokio::test]
async fn a_secret_that_was_rotated_away_ends_what_it_opened_and_the_new_one_does_not() {
    let two = Two::start().await;
    let open = two.open().await;
    let mut watching = Vec::new();
    for (nth, key) in open.keys.iter().enumerate() {
        let path = format!("{}/rotate", two.key_path(key));
        let overlap_ms = if nth % 2 == 0 { 0 } else { 1000 };
        let rotated = two.world.server.operator().post(&path, &json!({"overlap_ms": overlap_ms})).await.ok();
        let client = two.world.client.with_key(rotated["secret"].as_str().expect("a secret"));
        // At a server that may not have heard of it yet.
        watching.push(client.at(two.other.url()).stream(&two.run().path("/events"), None).await);
    }
    open.ends(401).await;
    for stream in watching {
        two.let_go(stream).await;
    }
}

#[tokio::test]
async fn a_tenant_that_is_suspended_sees_no_more() {
    let two = Two::start().await;
    let open = two.open().await;
    two.execute("UPDATE tenants SET suspended_at = now() WHERE tenant_id = $1", &two.world.tenant).await;
    open.ends(403).await;
    two.execute("UPDATE tenants SET suspended_at = NULL WHERE tenant_id = $1", &two.world.tenant).await;
}

#[tokio::test]
async fn a_tenant_that_is_deleted_sees_no_more() {
    let two = Two::start().await;
    let open = two.open().await;
    two.world.server.operator().delete(&format!("/v1/tenants/{}", two.world.tenant)).await.is(204);
    let begun = Instant::now();
    for wait in open.waits {
        let answer = wait.await.expect("an answer");
        assert!(matches!(answer.status, 401 | 404), "{answer}");
    }
    for stream in open.streams {
        stream.rest().await;
    }
    assert!(begun.elapsed() < SOON);
}

#[tokio::test]
async fn whoever_started_a_run_is_told_so_though_the_key_is_gone() {
    let world = World::alone().await;
    world.model.script("m", [ModelReply::text("Later.").held()]);
    let (keys, body) =
        (format!("/v1/tenants/{}/keys", world.tenant), json!({"name": "k", "scopes": ["runs:write"]}));
    let made = world.server.operator().post(&keys, &body).await.is(201);
    let client = world.client.with_key(made["secret"].as_str().expect("a secret"));
    let body = json!({"agent": world.agent(&[]), "input": "go"});
    let ask = client.post("/v1/runs", &body).header("prefer", "wait=60");
    let asked = tokio::spawn(async move { ask.await });
    world.model.requests_reached(1).await;
    world.server.operator().delete(&format!("{keys}/{}", made["id"].as_str().expect("an id"))).await.is(204);
    let answer = tokio::time::timeout(SOON, asked).await.expect("soon").expect("an answer");
    // As it was accepted: what happened since is not told.
    let run = answer.is(201);
    run.fits(&json!({"status": "queued"}));
    world.model.release();
    world.run(&run).ended().await;
}

/// Sends the head of a request and the first half of its body; gives what is left to send.
async fn half_sent(url: &str, secret: &str, body: &str) -> (TcpStream, String) {
    let address = url.trim_start_matches("http://");
    let mut line = TcpStream::connect(address).await.expect("a connection");
    let (first, rest) = body.split_at(body.len() / 2);
    let head = format!(
        "POST /v1/threads HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {secret}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{first}",
        body.len()
    );
    line.write_all(head.as_bytes()).await.expect("sent");
    (line, rest.to_owned())
}

#[tokio::test]
async fn a_body_that_comes_late_does_nothing_with_a_key_that_is_gone() {
    let world = World::shared().await;
    let operator = world.server.operator();
    let keys = format!("/v1/tenants/{}/keys", world.tenant);
    for is_revoked in [false, true] {
        let made = operator.post(&keys, &json!({"name": "k", "scopes": ["runs:write"]})).await.is(201);
        let path = format!("{keys}/{}", made["id"].as_str().expect("an id"));
        let body = json!({"metadata": {"from": "slowly"}}).to_string();
        let secret = made["secret"].as_str().expect("a secret");
        let (mut line, rest) = half_sent(world.server.url(), secret, &body).await;
        until("the key is used", async || !operator.get(&path).await.ok()["last_used_at"].is_null()).await;
        if is_revoked {
            operator.delete(&path).await.is(204);
        }
        line.write_all(rest.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        line.read_to_string(&mut answer).await.expect("an answer");
        let wanted = if is_revoked { "HTTP/1.1 401" } else { "HTTP/1.1 201" };
        assert!(answer.starts_with(wanted), "{answer}");
    }
    let threads = world.client.get("/v1/threads").await.ok();
    assert_eq!(threads["data"].as_array().map(Vec::len), Some(1));
}

/// A key's text that nobody has.
fn made_up() -> String {
    format!("ans_{}_{}", Uuid::new_v4().simple(), "A".repeat(43))
}

async fn status_of(client: Client) -> (u16, bool) {
    let answer = client.ask(Method::GET, "/v1/runs").await;
    (answer.status, answer.header("retry-after").is_some())
}

#[tokio::test]
async fn made_up_keys_are_looked_up_few_at_a_time() {
    let world = World::alone().await;
    let mut lock = PgConnection::connect(world.database_url()).await.expect("a connection");
    let mut held = lock.begin().await.expect("a transaction");
    world.client.get("/v1/runs").await.ok();
    // As if the database took its time with each.
    sqlx::query("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE").execute(&mut *held).await.expect("a lock");
    let asked = |client: Client| tokio::spawn(status_of(client));
    let flood: Vec<_> = (0..100).map(|_| asked(world.client.with_key(&made_up()))).collect();
    // Who is known is served meanwhile.
    world.client.get("/v1/runs").await.ok();
    let answered = || flood.iter().filter(|asked| asked.is_finished()).count();
    until("most are turned away", async || answered() >= 90).await;
    assert!(answered() < 100, "a few wait for the database");
    held.rollback().await.expect("let go");
    let answers = futures::future::join_all(flood).await.into_iter();
    let answers: Vec<(u16, bool)> = answers.map(|answer| answer.expect("an answer")).collect();
    let refused = answers.iter().filter(|answer| **answer == (503, true)).count();
    let unknown = answers.iter().filter(|answer| answer.0 == 401).count();
    assert!(refused >= 90 && unknown >= 1 && refused + unknown == 100, "{answers:?}");
    assert_eq!(status_of(world.client.with_key(&made_up())).await.0, 401);
}
