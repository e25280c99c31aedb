//! Contents in a service that speaks S3: a small one in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use answerable_blobs::{BlobPlace, Blobs};
use answerable_core::id::TenantId;
use answerable_ports::{BlobHash, BlobName, BlobStore as _, StoreError};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{Method, StatusCode};
use uuid::Uuid;

/// Objects by their whole path, and the requests that were made.
#[derive(Default)]
struct Far {
    objects: BTreeMap<String, Bytes>,
    requests: Vec<String>,
}

fn named(number: u8) -> BlobName {
    BlobName { hash: BlobHash([number; 32]), object: Uuid::from_u128(7) }
}

type Shared = Arc<Mutex<Far>>;

async fn serve() -> (String, Shared) {
    let far = Shared::default();
    let router = Router::new().fallback(answer).with_state(Arc::clone(&far));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, far)
}

async fn answer(State(far): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let mut far = far.lock().expect("nobody panicked");
    let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default());
    far.requests.push(format!("{} {path} {query}", head.method));
    let signed = head.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !signed.starts_with("AWS4-HMAC-SHA256 Credential=me/") {
        return StatusCode::FORBIDDEN.into_response();
    }
    match head.method {
        Method::PUT => {
            far.objects.insert(path, body);
            ([("etag", "\"1\"")], "").into_response()
        }
        Method::GET if query.contains("list-type=2") => listed(&far, &path, query).into_response(),
        Method::GET => match far.objects.get(&path) {
            Some(content) => {
                let dated = [("etag", "\"1\""), ("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")];
                (dated, content.clone()).into_response()
            }
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Method::DELETE => {
            far.objects.remove(&path);
            StatusCode::NO_CONTENT.into_response()
        }
        Method::POST => {
            let asked = String::from_utf8_lossy(&body).into_owned();
            let (mut left, mut told) = (BTreeMap::new(), String::new());
            for (name, content) in std::mem::take(&mut far.objects) {
                let key = name.trim_start_matches("/files/");
                if asked.contains(key) {
                    told.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
                } else {
                    left.insert(name, content);
                }
            }
            far.objects = left;
            format!("<DeleteResult>{told}</DeleteResult>").into_response()
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn listed(far: &Far, bucket: &str, query: &str) -> String {
    let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = prefix.replace("%2F", "/");
    let within = format!("{}/{prefix}", bucket.trim_end_matches('/'));
    let contents: String = far
        .objects
        .iter()
        .filter(|(name, _)| name.starts_with(&within))
        .map(|(name, content)| {
            let key = name.trim_start_matches("/files/");
            format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2024-01-01T00:00:00Z</LastModified></Contents>",
                content.len()
            )
        })
        .collect();
    format!("<ListBucketResult>{contents}</ListBucketResult>")
}

fn place(url: &str, key: &str) -> BlobPlace {
    let variables = [
        ("AWS_ACCESS_KEY_ID", key),
        ("AWS_SECRET_ACCESS_KEY", "hidden"),
        ("AWS_REGION", "eu-1"),
        ("AWS_ENDPOINT_URL", url),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_OF_NO_MEANING", "x"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.into())).to_vec();
    BlobPlace::S3 { bucket: "files".into(), prefix: "answerable/of".into(), variables }
}

#[tokio::test]
async fn contents_come_and_go() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let (url, far) = serve().await;
    let blobs = Blobs::new(place(&url, "me")).expect("a place");
    let (a, b) = (TenantId(Uuid::from_u128(1)), TenantId(Uuid::from_u128(2)));
    let [one, two] = [named(1), named(2)];
    assert_eq!(blobs.get(a, one, 9).await.expect("an answer"), None);
    for (tenant, name) in [(a, one), (a, two), (b, one)] {
        blobs.put(tenant, name, Bytes::from_static(b"large")).await.expect("kept");
    }
    let name = format!("/files/answerable/of/{}/01/{one}", a.0);
    assert!(far.lock().expect("nobody panicked").objects.contains_key(&name), "{name}");
    assert_eq!(blobs.get(a, one, 5).await.expect("an answer").as_deref(), Some(b"large" as &[u8]));
    assert!(blobs.get(a, one, 4).await.is_err(), "longer than it was");
    blobs.remove(a, one).await.expect("gone");
    assert_eq!(blobs.get(a, one, 9).await.expect("an answer"), None);
    blobs.remove_all(a).await.expect("gone");
    let far = far.lock().expect("nobody panicked");
    let left: Vec<&String> = far.objects.keys().collect();
    assert_eq!(left, [&format!("/files/answerable/of/{}/01/{one}", b.0)], "{:?}", far.requests);
}

#[tokio::test]
async fn a_storage_that_refuses_is_away() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let (url, _far) = serve().await;
    let blobs = Blobs::new(place(&url, "nobody")).expect("a place");
    let tenant = TenantId(Uuid::from_u128(1));
    let refused = blobs.get(tenant, named(1), 9).await;
    assert!(matches!(refused, Err(StoreError::Away(_))), "{refused:?}");
    let refused = blobs.put(tenant, named(1), Bytes::from_static(b"x")).await;
    let Err(StoreError::Away(why)) = refused else { panic!("{refused:?}") };
    assert!(!why.contains("hidden"), "{why}");
}

#[tokio::test]
async fn a_place_that_makes_no_sense_is_told_at_the_start() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let place = |value: &str| {
        let variables = vec![("AWS_ALLOW_HTTP".to_owned(), value.into())];
        BlobPlace::S3 { bucket: "files".into(), prefix: String::new(), variables }
    };
    assert!(Blobs::new(place("perhaps")).is_err());
    assert!(Blobs::new(place("true")).is_ok());
}
