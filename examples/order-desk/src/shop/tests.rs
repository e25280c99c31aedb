//! The shop over HTTP, on a PostgreSQL of its own.

use std::time::Duration;

use answerable_devdb::{Options, PrivatePostgres};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::faults::Faults;
use super::{Idempotency, Shop, serve, tables};

/// A shop that is open.
struct Open {
    client: Client,
    base: String,
    pool: PgPool,
    _postgres: PrivatePostgres,
    _data: TempDir,
}

impl Open {
    async fn new(idempotency: Idempotency) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let data = TempDir::with_prefix("order-desk-test-").unwrap();
        let options =
            Options { data_dir: data.path().to_owned(), bin_dir: None, fsync: false, max_connections: 20 };
        let start = move || {
            let postgres = PrivatePostgres::start(options).unwrap();
            postgres.create_database("shop").unwrap();
            postgres
        };
        let postgres = tokio::task::spawn_blocking(start).await.unwrap();
        let pool = PgPool::connect(&postgres.url("shop")).await.unwrap();
        tables::create(&pool).await.unwrap();
        let shop = Shop { pool: pool.clone(), token: "t".into(), idempotency, faults: Faults::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(listener, shop));
        let client = Client::builder().no_proxy().build().unwrap();
        Self { client, base, pool, _postgres: postgres, _data: data }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth("t")
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let answer = self.request(Method::GET, path).send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    async fn post(&self, path: &str, key: &str, body: &Value) -> reqwest::Result<(StatusCode, Value)> {
        let request = self.request(Method::POST, path).header("idempotency-key", key);
        let answer = request.header("x-message-id", "m").json(body).send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    async fn arm(&self, fault: Value) {
        let (status, _) = self.post("/admin/faults", "-", &fault).await.unwrap();
        assert_eq!(status, StatusCode::CREATED);
    }

    async fn orders(&self) -> usize {
        self.get("/admin/audit").await.1["orders"].as_array().unwrap().len()
    }
}

fn cups(quantity: i64) -> Value {
    json!({ "customer_id": 2, "sku": "CUP-02", "quantity": quantity })
}

#[tokio::test]
async fn a_shop_that_ignores_keys_orders_twice() {
    let shop = Open::new(Idempotency::Ignore).await;
    let (first, _) = shop.post("/orders", "k", &cups(1)).await.unwrap();
    let (second, _) = shop.post("/orders", "k", &cups(1)).await.unwrap();
    assert_eq!((first, second), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(shop.orders().await, 2);
    let (_, stock) = shop.get("/stock/CUP-02").await;
    assert_eq!(stock["available"], 38);
}

#[tokio::test]
async fn a_shop_that_honours_keys_gives_the_first_answer_again() {
    let shop = Open::new(Idempotency::Honour).await;
    let (_, first) = shop.post("/orders", "k", &cups(1)).await.unwrap();
    let (status, second) = shop.post("/orders", "k", &cups(1)).await.unwrap();
    assert_eq!((status, &second), (StatusCode::OK, &first));
    let (status, _) = shop.post("/orders", "k", &cups(2)).await.unwrap();
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(shop.orders().await, 1);

    let refund = json!({ "order_id": 1003, "amount_cents": 875, "reason": "leaked" });
    let (_, first) = shop.post("/refunds", "r", &refund).await.unwrap();
    let (_, second) = shop.post("/refunds", "r", &refund).await.unwrap();
    assert_eq!(first, second);

    let mail = json!({ "to": "jonas@customers.example", "subject": "s", "text": "t" });
    let (_, first) = shop.post("/mails", "m", &mail).await.unwrap();
    let (_, second) = shop.post("/mails", "m", &mail).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn refusals_change_nothing() {
    let shop = Open::new(Idempotency::Ignore).await;
    let stranger = shop.client.get(format!("{}/stock/CUP-02", shop.base)).send().await.unwrap();
    assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED);
    let cases = [
        ("/orders", json!({ "customer_id": 2, "sku": "CUP-02", "quantity": 0 }), 422),
        ("/orders", json!({ "customer_id": 2, "sku": "CUP-02", "quantity": 41 }), 409),
        ("/orders", json!({ "customer_id": 99, "sku": "CUP-02", "quantity": 1 }), 404),
        ("/refunds", json!({ "order_id": 1, "amount_cents": 1, "reason": "r" }), 404),
        ("/refunds", json!({ "order_id": 1001, "amount_cents": 1451, "reason": "r" }), 409),
        ("/mails", json!({ "to": "nobody@elsewhere.example", "subject": "s", "text": "t" }), 404),
    ];
    for (path, body, expected) in cases {
        let (status, _) = shop.post(path, "k", &body).await.unwrap();
        assert_eq!(status.as_u16(), expected, "{path} {body}");
    }
    let (_, books) = shop.get("/admin/audit").await;
    assert_eq!(books, json!({ "orders": [], "refunds": [], "mails": [] }));
    let (_, stock) = shop.get("/stock/CUP-02").await;
    assert_eq!(stock["available"], 40);
}

#[tokio::test]
async fn a_cut_line_leaves_the_order_made_and_found_by_its_key() {
    let shop = Open::new(Idempotency::Ignore).await;
    shop.arm(json!({ "endpoint": "POST /orders", "kind": "cut", "when": { "sku": "CUP-02" } })).await;
    let pot = json!({ "customer_id": 2, "sku": "POT-80", "quantity": 1 });
    assert!(shop.post("/orders", "other", &pot).await.is_ok(), "other requests are spared");
    assert!(shop.post("/orders", "cut", &cups(1)).await.is_err());
    let (_, found) = shop.get("/orders/find?key=cut").await;
    assert_eq!((&found["state"], &found["result"]["quantity"]), (&json!("applied"), &json!(1)));
    assert!(shop.post("/orders", "again", &cups(1)).await.is_ok(), "once means once");
    assert_eq!(shop.orders().await, 3);
}

#[tokio::test]
async fn a_closed_shop_does_nothing_and_a_late_one_has_done_it() {
    let shop = Open::new(Idempotency::Ignore).await;
    let closed = json!({ "endpoint": "POST /orders", "kind": "unavailable", "retry_after_s": 1, "times": 2 });
    shop.arm(closed).await;
    for _ in 0..2 {
        let answer = shop.request(Method::POST, "/orders").json(&cups(1)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()["retry-after"], "1");
    }
    assert_eq!(shop.get("/orders/find?key=k").await.1, json!({ "state": "not_applied" }));
    shop.arm(json!({ "endpoint": "POST /orders", "kind": "late", "delay_ms": 60_000 })).await;
    let impatient = shop.request(Method::POST, "/orders").header("idempotency-key", "k").json(&cups(1));
    assert!(impatient.timeout(Duration::from_secs(2)).send().await.is_err());
    assert_eq!(shop.get("/orders/find?key=k").await.1["state"], "applied");
}

#[tokio::test]
async fn a_question_by_key_waits_for_the_request_under_way() {
    let shop = Open::new(Idempotency::Ignore).await;
    let mut under_way = shop.pool.begin().await.unwrap();
    tables::lock_key(&mut under_way, "k").await.unwrap();
    let question = shop.request(Method::GET, "/orders/find?key=k").send();
    tokio::pin!(question);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut question).await;
    assert!(early.is_err(), "answered while the order was under way");
    sqlx::query("INSERT INTO orders (customer_id, sku, quantity, total_cents, idempotency_key) VALUES (1, 'CUP-02', 1, 990, 'k')")
        .execute(&mut *under_way)
        .await
        .unwrap();
    under_way.commit().await.unwrap();
    let answer: Value = question.await.unwrap().json().await.unwrap();
    assert_eq!(answer["state"], "applied");
}
