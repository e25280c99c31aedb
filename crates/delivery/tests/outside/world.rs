//! A tenant with a database of its own, and servers that send its deliveries.

use std::time::Duration;

use answerable_core::id::{DeliveryId, TenantId, WebhookId};
use answerable_delivery::Limits;
use answerable_store::{
    ConnectOptions, DeliveryFilter, DeliveryRow, NewWebhook, Sealer, Signals, Store, TenantTx,
};
use answerable_testkit::TestDatabase;
use answerable_tools::{Allow, GuardedClient};
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// As in earnest, but for the time that an endpoint has.
pub(crate) const LIMITS: Limits =
    Limits { at_once: 16, each: 4, of_tenant: 16, answer_within: Duration::from_secs(15) };

/// Whoever doesn't answer keeps its place for longer than any test lasts.
pub(crate) const NO_END: Limits = Limits { answer_within: Duration::from_secs(3600), ..LIMITS };

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) tenant: TenantId,
    /// Heard by all its servers.
    signals: Signals,
    database: TestDatabase,
}

/// A server that sends; dropped, it is dead at once.
pub(crate) struct Sender {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Sender {
    /// Lets what is out finish.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.expect("it ends");
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create().await.expect("a database");
        let (signals, _) = Signals::new();
        let store = connect(&database, &signals);
        let mut tx = store.system().await.expect("a transaction");
        let tenant = tx.tenant_create("a shop", &Map::new(), false).await.expect("a tenant");
        tx.commit().await.expect("committed");
        Self { tenant: TenantId(tenant.tenant_id), store, signals, database }
    }

    pub(crate) async fn tx(&self) -> TenantTx {
        self.store.tenant(self.tenant).await.expect("a transaction")
    }

    /// A server on the same database.
    pub(crate) fn sender(&self, limits: Limits) -> Sender {
        let allow = Allow::parse("127.0.0.0/8").expect("networks");
        let client = GuardedClient::new(allow).expect("a client");
        let stop = CancellationToken::new();
        let store = connect(&self.database, &self.signals);
        let sending = answerable_delivery::run(store, client, limits, stop.clone());
        Sender { task: tokio::spawn(sending), stop }
    }

    /// A webhook, and its signing secret.
    pub(crate) async fn hook(&self, url: &str) -> (WebhookId, String) {
        let new =
            NewWebhook { url: url.into(), events: vec!["*".into()], description: None, include_input: false };
        let mut tx = self.tx().await;
        let (row, secret) = tx.webhook_create(&new).await.expect("a webhook");
        tx.commit().await.expect("committed");
        (WebhookId(row.webhook_id), secret.expose_secret().to_owned())
    }

    /// Queues a delivery.
    pub(crate) async fn tell(&self, webhook: WebhookId, body: &Value) -> DeliveryId {
        let mut tx = self.tx().await;
        let queued = tx.delivery_create(webhook, "webhook.test", &body.to_string()).await;
        tx.commit().await.expect("committed");
        DeliveryId(queued.expect("an answer").expect("a delivery").delivery_id)
    }

    /// Queues so many of one run, numbered from 1.
    pub(crate) async fn tell_of_run(&self, webhook: WebhookId, count: i32) -> Uuid {
        let run = Uuid::now_v7();
        sqlx::query(
            "INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, run_id, type, body, next_attempt_at, created_at)
             SELECT $1, gen_random_uuid(), $2, $3, 'run.started', json_build_object('n', n, 'run', $3)::text, now(), now()
             FROM generate_series(1, $4) n ORDER BY n",
        )
        .bind(self.tenant.0)
        .bind(webhook.0)
        .bind(run)
        .bind(count)
        .execute(&mut self.superuser().await)
        .await
        .expect("queued");
        run
    }

    pub(crate) async fn superuser(&self) -> PgConnection {
        PgConnection::connect(&self.database.url).await.expect("a connection")
    }

    /// A webhook's deliveries, newest first.
    pub(crate) async fn log(&self, webhook: WebhookId) -> Vec<DeliveryRow> {
        let all = DeliveryFilter::default();
        self.tx().await.delivery_list(webhook, &all, None, 500).await.expect("deliveries")
    }

    /// The newest delivery as soon as `holds` is true of it.
    pub(crate) async fn log_when(
        &self,
        webhook: WebhookId,
        holds: impl Fn(&DeliveryRow) -> bool,
    ) -> DeliveryRow {
        for _ in 0..600 {
            let row = self.log(webhook).await.into_iter().next().expect("a delivery");
            if holds(&row) {
                return row;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it stayed {:?}", self.log(webhook).await);
    }
}

fn connect(database: &TestDatabase, signals: &Signals) -> Store {
    let options = ConnectOptions { url: database.url.clone(), max_connections: 8, prepared_statements: true };
    Store::connect(&options, Sealer::new(&[7; 32]), signals.clone()).expect("a store")
}

/// Whether it was tried.
pub(crate) fn is_tried(row: &DeliveryRow) -> bool {
    row.attempts.as_array().is_some_and(|attempts| !attempts.is_empty())
}
