//! A tenant with a model and tools around it.

use std::sync::{Arc, OnceLock};

use answerable_testkit::{ScriptedModel, ScriptedTools, TestDatabase};
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::agent::{agent, read_tool, write_tool};
use super::{Client, Run, Server, With};

/// The server of all tests that kill none.
static SHARED: OnceCell<(Arc<Server>, TestDatabase)> = OnceCell::const_new();

/// What a test has to itself: a tenant on some server, a scripted model and scripted tools.
#[derive(Debug)]
pub(crate) struct World {
    /// Has the tenant's key with the scope `admin`.
    pub(crate) client: Client,
    /// The tenant's id.
    pub(crate) tenant: String,
    /// Speaks as the provider `main`. Agents ask it for the model `m` unless they say otherwise.
    pub(crate) model: ScriptedModel,
    pub(crate) tools: ScriptedTools,
    pub(crate) server: Arc<Server>,
    /// Where the log ended when the test began.
    log_from: u64,
    provider_key: String,
    /// Errors in the log with these words are what the test is about.
    expected_errors: OnceLock<&'static str>,
    /// Dropped after the server.
    database: Option<TestDatabase>,
}

impl World {
    /// A tenant on the server that the tests share.
    pub(crate) async fn shared() -> Self {
        let (server, _) = SHARED
            .get_or_init(|| async {
                let database = TestDatabase::create().await.expect("a database");
                (Arc::new(Server::start(&database).await), database)
            })
            .await;
        Self::on(Arc::clone(server), None).await
    }

    /// A tenant on a server of its own, which may be killed.
    pub(crate) async fn alone() -> Self {
        let database = TestDatabase::create().await.expect("a database");
        let server = Server::start(&database).await;
        Self::on(Arc::new(server), Some(database)).await
    }

    /// A tenant on this server.
    pub(crate) async fn on(server: Arc<Server>, database: Option<TestDatabase>) -> Self {
        let log_from = server.log_end();
        let (tenant, client) = new_tenant(&server, &json!({})).await;
        let model = ScriptedModel::start().await.expect("a model");
        let tools = ScriptedTools::start().await.expect("tools");
        let provider_key = format!("sk-{}", Uuid::new_v4().simple());
        model.require_key(&provider_key);
        let expected_errors = OnceLock::new();
        let world =
            Self { client, tenant, model, tools, server, log_from, provider_key, expected_errors, database };
        world.provider(&world.client, json!({})).await;
        world
    }

    /// Stores the provider `main` of a tenant, with changes.
    pub(crate) async fn provider(&self, client: &Client, changes: Value) {
        let spec = json!({
            "kind": "openai_chat", "base_url": self.model.base_url(), "api_key": self.provider_key,
        });
        client.put("/v1/providers/main", &spec.with(changes)).await.ok();
    }

    /// Another tenant on the same server, with the same model. Its id and a client with its `admin` key.
    pub(crate) async fn neighbour(&self, quotas: &Value) -> (String, Client) {
        let (tenant, client) = new_tenant(&self.server, quotas).await;
        self.provider(&client, json!({})).await;
        (tenant, client)
    }

    /// A client with a new key of this tenant.
    pub(crate) async fn key(&self, scopes: &[&str]) -> Client {
        let body = json!({"name": "k", "scopes": scopes});
        let path = format!("/v1/tenants/{}/keys", self.tenant);
        let key = self.server.operator().post(&path, &body).await.is(201);
        self.client.with_key(key["secret"].as_str().expect("a secret"))
    }

    pub(crate) fn provider_key(&self) -> &str {
        &self.provider_key
    }

    /// What the server logged since this test began.
    pub(crate) fn log(&self) -> String {
        self.server.log_from(self.log_from)
    }

    /// The server, which must be the test's own, will log errors with these words.
    pub(crate) fn expect_errors(&self, words: &'static str) {
        assert!(self.database.is_some(), "other tests see the log of the shared server");
        self.expected_errors.set(words).expect("said once");
    }

    /// A tool that changes nothing.
    pub(crate) fn read(&self, name: &str) -> Value {
        read_tool(&self.tools, name)
    }

    /// A tool that has an effect.
    pub(crate) fn write(&self, name: &str) -> Value {
        write_tool(&self.tools, name)
    }

    /// An agent with these tools.
    pub(crate) fn agent(&self, tools: &[Value]) -> Value {
        agent(tools)
    }

    /// Starts a run of an inline agent.
    pub(crate) async fn start(&self, agent: &Value) -> Run<'_> {
        self.start_with(agent, json!({})).await
    }

    /// The same with more fields in the body; null leaves one out.
    pub(crate) async fn start_with(&self, agent: &Value, more: Value) -> Run<'_> {
        let answer = self.client.post("/v1/runs", &body(agent, more)).await;
        let location = answer.header("location").map(str::to_owned);
        let run = answer.is(201);
        assert_eq!(location, Some(format!("/v1/runs/{}", run["id"].as_str().expect("an id"))));
        self.run(&run)
    }

    /// A run by what the server told of it.
    pub(crate) fn run(&self, run: &Value) -> Run<'_> {
        Run::new(self, run["id"].as_str().expect("a run's id"))
    }

    /// Where the server's database is.
    pub(crate) fn database_url(&self) -> &str {
        let shared = SHARED.get().map(|(_, database)| database);
        &self.database.as_ref().or(shared).expect("a database").url
    }

    /// One number or truth out of the database, past all its guards. `$1` is a run's id.
    pub(crate) async fn sql<T>(&self, query: &'static str, run_id: &str) -> Option<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        let mut connection = PgConnection::connect(self.database_url()).await.expect("a connection");
        let id: Uuid = run_id.trim_start_matches("run_").parse().expect("a run's id");
        sqlx::query_scalar(query).bind(id).fetch_optional(&mut connection).await.expect("a query that works")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let is_shared = self.database.is_none();
        if std::thread::panicking() {
            // An own server shows its log by itself.
            if is_shared {
                self.server.show_log(self.log_from);
            }
            return;
        }
        let log = self.log();
        assert!(!log.contains("panicked at"), "the server panicked:\n{log}");
        let is_expected = |line: &&str| self.expected_errors.get().is_some_and(|words| line.contains(words));
        let mut errors =
            log.lines().filter(|line| line.contains(" ERROR ")).filter(|line| !is_expected(line));
        assert!(errors.next().is_none(), "the server logged an error:\n{log}");
        assert!(!log.contains(&self.provider_key), "the provider's key is in the log");
    }
}

/// The body of `POST /v1/runs` for an inline agent.
pub(crate) fn body(agent: &Value, more: Value) -> Value {
    let mut body = json!({"agent": agent, "input": "go"}).with(more);
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    body
}

/// A moment that many seconds from now, as the API writes it.
pub(crate) fn seconds_from_now(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "tests deal in seconds")]
    let moment = Utc::now() + TimeDelta::milliseconds((seconds * 1000.0) as i64);
    moment.to_rfc3339_opts(SecondsFormat::Millis, true)
}

async fn new_tenant(server: &Server, quotas: &Value) -> (String, Client) {
    let operator = server.operator();
    let name = format!("tenant {}", Uuid::new_v4().simple());
    let tenant = operator.post("/v1/tenants", &json!({"name": name, "quotas": quotas})).await.is(201);
    let id = tenant["id"].as_str().expect("an id").to_owned();
    let key = operator.post(&format!("/v1/tenants/{id}/keys"), &json!({"name": "all", "scopes": ["admin"]}));
    let key = key.await.is(201);
    (id, operator.with_key(key["secret"].as_str().expect("a secret")))
}
