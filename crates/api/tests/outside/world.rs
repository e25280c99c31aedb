//! The API over a database of its own, asked without a network. Every answer is judged by the document.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use answerable_api::{AddressRule, ApiConfig, AppState, Metrics, ShellRule, router};
use answerable_core::id::TenantId;
use answerable_ports::{BlobName, BlobStore, StoreError};
use answerable_store::{ConnectOptions, Sealer, Signals, Store, Workspaces};
use answerable_testkit::{Document, TestDatabase};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

pub(crate) const OPERATOR: &str = "operator-key-of-the-tests";

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) draining: watch::Sender<bool>,
    /// A tenant's id and a key of it with `admin`.
    pub(crate) tenant: String,
    pub(crate) key: String,
    // Dropped last: the database goes with it.
    _database: Option<TestDatabase>,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Pointers of a problem's faults.
    pub(crate) fn pointers(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array().into_iter().flatten();
        errors.filter_map(|error| error["pointer"].as_str()).collect()
    }
}

struct Quiet;

impl Metrics for Quiet {
    fn text(&self) -> String {
        "answerable_up 1\n".into()
    }

    fn answered(&self, _: &str, _: &str, _: u16, _: Duration) {}

    fn shed(&self, _: &'static str) {}
}

/// Nothing at 10.0.0.1 may be called, nor anything that is no web address.
struct Rule;

impl AddressRule for Rule {
    fn refusal(&self, url: &str) -> Option<String> {
        (!url.starts_with("http") || url.contains("10.0.0.1")).then(|| "may not be called".into())
    }
}

/// Large contents, in memory.
#[derive(Default)]
struct Shelf(Mutex<BTreeMap<(TenantId, BlobName), Bytes>>);

#[async_trait]
impl BlobStore for Shelf {
    async fn put(&self, tenant: TenantId, name: BlobName, content: Bytes) -> Result<(), StoreError> {
        self.0.lock().expect("nobody panicked").insert((tenant, name), content);
        Ok(())
    }

    async fn get(&self, tenant: TenantId, name: BlobName, _: u64) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.lock().expect("nobody panicked").get(&(tenant, name)).cloned())
    }

    async fn remove(&self, tenant: TenantId, name: BlobName) -> Result<(), StoreError> {
        self.0.lock().expect("nobody panicked").remove(&(tenant, name));
        Ok(())
    }

    async fn remove_all(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.0.lock().expect("nobody panicked").retain(|(whose, _), _| *whose != tenant);
        Ok(())
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with_bodies(64 * 1024).await
    }

    /// One whose requests may have bodies of so many bytes.
    pub(crate) async fn with_bodies(max_bytes: usize) -> Self {
        let database = TestDatabase::create().await.expect("a database");
        let mut world = Self::over(&database.url.clone(), Some(database), max_bytes);
        (world.tenant, world.key) = world.new_tenant(json!({})).await;
        world
    }

    /// One whose database is away. Its key has a key's form and no more.
    pub(crate) fn without_database() -> Self {
        let mut world = Self::over("postgres://nobody@127.0.0.1:9/none", None, 64 * 1024);
        world.key = format!("ans_{}_{}", "0".repeat(32), "A".repeat(43));
        world
    }

    fn over(url: &str, database: Option<TestDatabase>, max_body_bytes: usize) -> Self {
        let options = ConnectOptions { url: url.to_owned(), max_connections: 8, prepared_statements: true };
        let store = Store::connect(&options, Sealer::new(&[7; 32]), Signals::new().0).expect("a store");
        let draining = watch::Sender::new(false);
        let config = ApiConfig {
            operator_key: Some(OPERATOR.into()),
            public_url: "http://answerable.example".into(),
            max_body_bytes,
            max_requests: 64,
            max_streams: 64,
            identity: None,
            metrics: Arc::new(Quiet),
            addresses: Arc::new(Rule),
            shell: ShellRule { refusal: None, network: false, memory_mb: 1024 },
            tool_source: Arc::new(crate::mcp::Shelf),
            mcp_commands: ["local-files".to_owned()].into(),
            started: Arc::new(AtomicBool::new(true)),
            workspaces: Workspaces::new(store.clone(), Arc::new(Shelf::default())),
            draining: draining.subscribe(),
        };
        let router = router(AppState::new(store, config));
        Self { router, draining, tenant: String::new(), key: String::new(), _database: database }
    }

    /// A new tenant and a key of it with `admin`.
    pub(crate) async fn new_tenant(&self, quotas: Value) -> (String, String) {
        let made = self.ask(OPERATOR, "POST", "/v1/tenants", json!({"name": "one", "quotas": quotas})).await;
        let tenant = made.body["id"].as_str().expect("an id").to_owned();
        let key = self.new_key(&tenant, &["admin"]).await;
        (tenant, key)
    }

    pub(crate) async fn new_key(&self, tenant: &str, scopes: &[&str]) -> String {
        let path = format!("/v1/tenants/{tenant}/keys");
        let made = self.ask(OPERATOR, "POST", &path, json!({"name": "k", "scopes": scopes})).await;
        made.body["secret"].as_str().expect("a secret").to_owned()
    }

    /// Asks as the tenant; null sends no body.
    pub(crate) async fn tell(&self, method: &str, path: &str, body: Value) -> Reply {
        self.ask(&self.key, method, path, body).await
    }

    pub(crate) async fn ask(&self, key: &str, method: &str, path: &str, body: Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.send(method, path, &headers, body).await
    }

    /// Asks as the tenant with one more header.
    pub(crate) async fn tell_with(
        &self,
        header: (&str, &str),
        method: &str,
        path: &str,
        body: Value,
    ) -> Reply {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json"), header];
        self.send(method, path, &headers, body.to_string()).await
    }

    /// An answer of which nothing is read yet.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).expect("a request");
        self.router.clone().oneshot(request).await.expect("an answer")
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let (parts, body) = self.open(method, path, headers, body).await.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("a body");
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        let reply = Reply { status: parts.status.as_u16(), headers: parts.headers, body, text };
        judge(method, path, &reply);
        reply
    }
}

fn judge(method: &str, path: &str, reply: &Reply) {
    let document = Document::load();
    let verdict =
        document.judge_response(method, path, reply.status, reply.header("content-type"), &reply.body);
    verdict.unwrap_or_else(|faults| panic!("{method} {path}: {faults:?}: {}", reply.text));
    let verdict = document.judge_headers(method, path, reply.status, |name| reply.header(name));
    verdict.unwrap_or_else(|faults| panic!("{method} {path}: {faults:?}"));
}
