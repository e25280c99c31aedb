//! Lines for machines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, TestDatabase};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Fits, Server, World};

/// The line with this message, as soon as it is there; every other one is JSON, too.
pub(crate) async fn line(world: &World, message: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let log = world.log();
        let parse = |line: &str| -> Value {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        // The last one may be half written.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some(found) = whole.lines().map(parse).find(|line| line["message"] == message) {
            return found;
        }
        assert!(Instant::now() < deadline, "nothing says {message:?}:\n{log}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_failed_run_has_a_line_that_names_it_and_its_trace_and_tells_nothing_that_was_said() {
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[("ANSWERABLE_LOG_FORMAT", "json")]).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    world.model.script("m", [ModelReply::status(400)]);
    let agent = world.agent(&[]);
    let run = world.start_with(&agent, json!({"input": "the words of a customer"})).await;
    let ended = run.ended().await;
    ended.fits(&json!({"status": "failed", "stop_reason": "model_error"}));
    let line = line(&world, "the run failed").await;
    line.fits(&json!({
        "timestamp": "*", "level": "INFO", "target": "~answerable_engine", "run_id": run.id,
        "trace_id": ended["trace_id"], "stop_reason": "model_error", "code": "model_error", "step": 1,
    }));
    let log = world.log();
    for said in ["the words of a customer", "scripted 400", "You test."] {
        assert!(!log.contains(said), "{said:?} is in the log:\n{log}");
    }
}
