use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};

use super::*;

const OPERATOR: &str = "operator-key-0123456789";

/// What a server knows: its tenants, and its keys.
#[derive(Default)]
struct Known {
    tenants: Vec<String>,
    keys: Vec<String>,
}

type Shared = Arc<Mutex<Known>>;

fn bearer(headers: &HeaderMap) -> &str {
    headers["authorization"].to_str().expect("text").trim_start_matches("Bearer ")
}

async fn make_tenant(State(known): State<Shared>, headers: HeaderMap) -> Json<Value> {
    assert_eq!(bearer(&headers), OPERATOR);
    let mut known = known.lock().expect("not poisoned");
    let id = format!("ten_{}", known.tenants.len());
    known.tenants.push(id.clone());
    Json(json!({"id": id}))
}

async fn show_tenant(State(known): State<Shared>, Path(id): Path<String>) -> StatusCode {
    let known = known.lock().expect("not poisoned");
    if known.tenants.contains(&id) { StatusCode::OK } else { StatusCode::NOT_FOUND }
}

async fn make_key(
    State(known): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<Value>,
) -> Json<Value> {
    assert_eq!(body["scopes"], json!(["admin"]));
    let mut known = known.lock().expect("not poisoned");
    let secret = format!("secret-{}-{id}", known.keys.len());
    known.keys.push(secret.clone());
    Json(json!({"id": "key_1", "secret": secret}))
}

async fn runs(State(known): State<Shared>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let is_known = known.lock().expect("not poisoned").keys.iter().any(|key| key == bearer(&headers));
    let status = if is_known { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    (status, Json(json!({"data": []})))
}

async fn server() -> (Url, Shared) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let known = Shared::default();
    let routes = Router::new()
        .route("/v1/tenants", post(make_tenant))
        .route(
            "/v1/tenants/{id}",
            get(|state, path| async { (show_tenant(state, path).await, Json(json!({}))) }),
        )
        .route("/v1/tenants/{id}/keys", post(make_key))
        .route("/v1/runs", get(runs))
        .with_state(Arc::clone(&known));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (base.parse().expect("a URL"), known)
}

#[tokio::test]
async fn a_tenant_and_a_key_are_made_once_and_again_only_where_they_are_gone() {
    let (base, known) = server().await;
    let dir = tempfile::tempdir().expect("temporary folder");
    let folder = DataFolder::open(dir.path()).expect("opened");
    let access = async || {
        let access = bootstrap(&base, &OPERATOR.to_owned().into(), &folder).await.expect("access");
        (access.tenant_id, access.api_key.expose_secret().to_owned())
    };
    let pair = |tenant: &str, key: &str| (tenant.to_owned(), key.to_owned());
    assert_eq!(access().await, pair("ten_0", "secret-0-ten_0"));
    assert_eq!(access().await, pair("ten_0", "secret-0-ten_0"), "kept");
    known.lock().expect("not poisoned").keys[0].clear();
    assert_eq!(access().await, pair("ten_0", "secret-1-ten_0"), "the key was revoked");
    {
        let mut known = known.lock().expect("not poisoned");
        known.keys[1].clear();
        known.tenants[0].clear();
    }
    assert_eq!(access().await, pair("ten_1", "secret-2-ten_1"), "the tenant is gone");
}
