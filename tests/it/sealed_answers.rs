//! Headers of every answer, whatever it is.

use answerable_testkit::{ModelReply, TestDatabase};
use reqwest::Method;
use serde_json::json;

use crate::harness::{Server, World};
use crate::raw::Raw;

const SEALED: [(&str, &str); 3] =
    [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("x-frame-options", "DENY")];
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

#[tokio::test]
async fn every_answer_is_sealed_and_names_no_software() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let stranger = world.server.stranger();
    let answers = [
        stranger.get("/healthz").await,
        stranger.get("/metrics").await,
        stranger.get("/openapi.yaml").await,
        stranger.get("/v1/runs").await,
        stranger.get("/nothing").await,
        stranger.ask(Method::PATCH, "/v1/runs").await,
        world.client.get("/v1/runs").await,
        world.client.get("/v1/runs?limit=none").await,
        world.client.get(&run.path("")).await,
        world.client.post("/v1/threads", &json!({})).await,
    ];
    for answer in answers {
        for (name, value) in SEALED {
            assert_eq!(answer.header(name), Some(value), "{name}: {answer}");
        }
        assert_eq!(answer.header("content-security-policy"), Some(NOTHING), "{answer}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer}");
        for name in
            ["server", "x-powered-by", "via", "strict-transport-security", "access-control-allow-origin"]
        {
            assert_eq!(answer.header(name), None, "{name}: {answer}");
        }
    }
    // What has words of its own for caches keeps them, and what is refused before all else is sealed too.
    let key = world.client.key().expect("a key");
    for (head, cache) in [
        (
            format!("GET {} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n", run.path("/events")),
            "no-cache, no-transform",
        ),
        ("GET /healthz HTTP/1.1\r\n".to_owned(), "no-store"),
    ] {
        let mut raw = Raw::to(&world.server).await;
        raw.send(format!("{head}Authorization: Bearer {key}\r\nConnection: close\r\n\r\n")).await;
        let answer = raw.rest().await;
        for (name, value) in
            SEALED.iter().chain(&[("cache-control", cache), ("content-security-policy", NOTHING)])
        {
            assert!(answer.contains(&format!("{name}: {value}\r\n")), "{name}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_reached_by_https_says_so() {
    let database = TestDatabase::create().await.expect("a database");
    let server =
        Server::start_with(&database.url, &[("ANSWERABLE_PUBLIC_URL", "https://desk.example")]).await;
    for path in ["/healthz", "/v1/runs"] {
        let answer = server.stranger().get(path).await;
        assert_eq!(answer.header("strict-transport-security"), Some("max-age=31536000"), "{answer}");
    }
}

#[tokio::test]
async fn no_page_of_another_origin_reads_anything() {
    let world = World::shared().await;
    let origin = ("origin", "https://evil.example");
    let asked = [
        world.client.get("/v1/runs").header(origin.0, origin.1).await,
        world
            .client
            .ask(Method::OPTIONS, "/v1/runs")
            .header(origin.0, origin.1)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type")
            .await,
    ];
    assert_eq!(asked.each_ref().map(|answer| answer.status), [200, 405]);
    for answer in asked {
        for name in ["origin", "methods", "headers", "credentials"] {
            assert_eq!(answer.header(&format!("access-control-allow-{name}")), None, "{answer}");
        }
    }
}
