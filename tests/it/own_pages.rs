//! The server's own pages.

use answerable_testkit::{Document, ModelReply};
use serde_json::json;

use crate::harness::World;

#[tokio::test]
async fn they_need_no_key() {
    let world = World::shared().await;
    let stranger = world.server.stranger();
    for path in ["/healthz", "/readyz"] {
        stranger.get(path).await.fits(&json!({"status": "*"}));
    }
    let metrics = stranger.get("/metrics").await;
    assert!(metrics.text.contains("# TYPE answerable_"), "{}", metrics.text);
}

#[tokio::test]
async fn the_document_is_served_as_it_is_tested() {
    let world = World::shared().await;
    let served = world.server.stranger().get("/openapi.yaml").await;
    let served = Document::parse(&served.text).expect("a document");
    assert_eq!(served.root(), Document::load().root());
}

#[tokio::test]
async fn metrics_count_and_name_no_run() {
    let world = World::alone().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let metrics = world.server.stranger().get("/metrics").await.text;
    assert!(metrics.contains("finished"), "{metrics}");
    for secret in [&run.id[4..], &world.tenant[4..], &run.id, &world.tenant] {
        assert!(!metrics.contains(secret), "{metrics}");
    }
}
