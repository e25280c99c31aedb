//! Several servers on one database, and servers that are told to stop.

use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::json;

use crate::harness::{Fits, With, World, until};

#[tokio::test]
async fn a_live_server_takes_over_what_a_dead_one_had() {
    let world = World::alone().await;
    world.model.script("m", [ModelReply::text("too late").held(), ModelReply::text("Taken over.")]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    let other = world.server.beside().await;
    world.server.kill();
    let died = Instant::now();
    world.model.requests_reached(2).await;
    let taken_over = died.elapsed();
    // The lease, a second, and some grace for a machine that is busy with other tests.
    assert!(taken_over < Duration::from_millis(1500 + 1000 + 750), "it took {taken_over:?}");
    let there = run.through(&world.client.at(other.url()));
    there.ended().await.fits(&json!({"status": "finished", "final_answer": "Taken over.", "attempt": 2}));
}

#[tokio::test]
async fn every_server_tells_and_takes_the_same() {
    let world = World::alone().await;
    let other = world.server.beside().await;
    let there = world.client.at(other.url());
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    let at_other = run.through(&there);
    at_other.waiting().await;
    // Watched here, decided there.
    let (here, elsewhere) = (run.stream(None).await, at_other.stream(None).await);
    at_other.approve().await;
    let ids = |events: Vec<_>| -> Vec<u64> {
        events.iter().filter_map(|event: &crate::harness::StreamEvent| event.id).collect()
    };
    assert_eq!(ids(here.rest().await), ids(elsewhere.rest().await));
    at_other.ended().await.fits(&json!({"status": "finished"}));
    run.ended().await;
    assert_eq!(world.tools.effects("pay"), 1);
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_fails_nobody() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::default().delayed(Duration::from_millis(500))]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    // A second run is in a model call that outlasts any drain.
    world.model.script("slow", [ModelReply::text("too late").held(), ModelReply::text("Asked again.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    let slow = world.start(&world.agent(&[]).with(json!({"model": {"model": "slow"}}))).await;
    world.tools.reached("pay", 1).await;
    until("the second one asks", async || !world.model.requests_for("slow").is_empty()).await;
    world.server.stop().await;
    world.server.start_again().await;
    run.ended().await.fits(&json!({"status": "finished", "uncertain": [], "attempt": 1}));
    slow.ended().await.fits(&json!({"final_answer": "Asked again.", "attempt": 1}));
    run.list("ledger").await.fits(&json!([{"status": "succeeded", "attempts": 1}]));
    assert_eq!(world.tools.requests("pay").len(), 1);
}

#[tokio::test]
async fn a_draining_server_takes_no_new_work_and_still_answers() {
    let world = World::alone().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    let stopping = world.server.stop();
    let looking = async {
        world.server.stranger();
        let client = &world.client;
        until("it says that it stops", async || {
            client.get("/readyz").try_send().await.is_ok_and(|answer| answer.status == 503)
        })
        .await;
        let body = json!({"agent": world.agent(&[]), "input": "go"});
        client.post("/v1/runs", &body).await.refused(503, "unavailable");
        run.now().await.fits(&json!({"status": "running"}));
        world.tools.release("pay");
    };
    tokio::join!(stopping, looking);
    world.server.start_again().await;
    run.ended().await.fits(&json!({"status": "finished", "uncertain": []}));
}
