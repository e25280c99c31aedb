//! Spans on their way to a collector: none lost and none made up, whatever dies or is away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_testkit::{Collector, ModelReply, TestDatabase, ToolAnswer};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Run, Server, With, World};
use crate::journal;

/// A world whose server exports to `collector`, with more settings.
async fn exporting(collector: &Collector, more: &[(&str, &str)]) -> World {
    let database = TestDatabase::create().await.expect("a database");
    let endpoint = collector.endpoint();
    let mut settings =
        vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    settings.push(("OTEL_METRICS_EXPORTER", "none"));
    settings.extend_from_slice(more);
    let server = Server::start_with(&database.url, &settings).await;
    World::on(Arc::new(server), Some(database)).await
}

/// Spans by id; what comes twice must be the same.
fn by_id(spans: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let mut known = BTreeMap::new();
    for mut span in spans {
        let id = span["spanId"].as_str().expect("an id").to_owned();
        span["attributes"].as_array_mut().expect("attributes").sort_by_key(|known| known["key"].to_string());
        if let Some(before) = known.insert(id, span.clone()) {
            assert_eq!(before, span, "a span came twice and was not the same");
        }
    }
    known
}

/// Those that the runs' journals imply, as the runs show them.
async fn implied(runs: &[Run<'_>]) -> BTreeMap<String, Value> {
    let mut all = Vec::new();
    for run in runs {
        let trace = run.client().get(&run.path("/trace")).await.ok();
        let spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
        all.extend(spans);
    }
    let count = all.len();
    let known = by_id(all);
    assert_eq!(known.len(), count, "two spans have one id");
    known
}

/// Returns when nothing waits to be exported. What a dead server had taken comes up again after a minute.
async fn exported(runs: &[Run<'_>]) {
    let deadline = Instant::now() + Duration::from_secs(100);
    let run = runs.first().expect("a run");
    loop {
        let waiting =
            run.world().sql::<i64>("SELECT count(*) FROM span_outbox WHERE $1 IS NOT NULL", &run.id);
        if waiting.await == Some(0) {
            return;
        }
        assert!(Instant::now() < deadline, "the outbox does not get empty");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Runs that take a while, with models, reads and writes that fail at times; `first` tells them from others.
async fn load<'w>(world: &'w World, first: usize, runs: usize) -> Vec<Run<'w>> {
    let slow = |answer: ToolAnswer| answer.delayed(Duration::from_millis(40));
    world.tools.script(
        "look",
        [slow(ToolAnswer::default()), slow(ToolAnswer::status(503)), slow(ToolAnswer::default())],
    );
    world.tools.dedupe("pay");
    world.tools.script("pay", [slow(ToolAnswer::default())]);
    let calls =
        || ModelReply::calls([("look", json!({"n": 1})), ("pay", json!({"n": 2})), ("nothing", json!({}))]);
    let look =
        world.read("look").with(json!({"retry": {"max_attempts": 9, "backoff_ms": 5}, "repeat": "allow"}));
    let pay = world.write("pay").with(json!({"idempotent": true, "repeat": "allow"}));
    let mut agent = world.agent(&[look, pay]);
    let mut started = Vec::new();
    for number in first..first + runs {
        let name = format!("m{number}");
        world.model.script(&name, [ModelReply::status(503), calls(), calls(), ModelReply::text("Done.")]);
        world.model.repeat_last(&name);
        agent["model"] =
            json!({"provider": "main", "model": name, "retry": {"max_attempts": 9, "backoff_ms": 5}});
        started.push(world.start(&agent).await);
    }
    started
}

/// Kills the server `kills` times while runs are at work, and compares what a collector got with what the journals imply.
async fn kills(kills: usize) {
    let collector = Collector::start().await.expect("a collector");
    let world = exporting(&collector, &[]).await;
    let mut all = Vec::new();
    for _ in 0..kills {
        all.extend(load(&world, all.len(), 4).await);
        // At any moment of the runs' lives.
        let moment = u64::try_from(uuid::Uuid::new_v4().as_u128() % 400).expect("a small number");
        sleep(Duration::from_millis(moment)).await;
        world.server.crash().await;
    }
    for run in &all {
        run.ended().await;
        // What the run shows is what its journal implies.
        journal::folds(run).await;
    }
    exported(&all).await;
    let (sent, implied) = (by_id(collector.spans()), implied(&all).await);
    let lost = |span: &&Value| span["status"]["message"] == "worker_lost";
    assert!(implied.values().filter(lost).count() > 0, "no attempt died with its server: the kills missed");
    let only = |a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>| -> Vec<Value> {
        a.iter().filter(|(id, _)| !b.contains_key(*id)).map(|(_, span)| span.clone()).collect()
    };
    assert_eq!(only(&implied, &sent), Vec::<Value>::new(), "implied and not received");
    assert_eq!(only(&sent, &implied), Vec::<Value>::new(), "received and not implied");
    assert_eq!(sent, implied);
    eprintln!("{kills} kills, {} runs, {} spans received and implied", all.len(), sent.len());
}

#[tokio::test]
async fn after_a_few_kills_the_collector_has_what_the_journals_imply() {
    kills(4).await;
}

/// The same at length: `make spans`.
#[tokio::test]
#[ignore = "takes minutes"]
async fn after_a_hundred_kills_the_collector_has_what_the_journals_imply() {
    kills(100).await;
}

#[tokio::test]
async fn while_the_collector_is_away_runs_go_on_and_nothing_is_lost() {
    let collector = Collector::start().await.expect("a collector");
    let world = exporting(&collector, &[]).await;
    collector.refuse(Some(503));
    let runs = load(&world, 0, 3).await;
    for run in &runs {
        run.ended().await;
    }
    collector.asked(1).await;
    assert_eq!(collector.spans(), Vec::<Value>::new());
    world.server.crash().await;
    collector.refuse(None);
    exported(&runs).await;
    assert_eq!(by_id(collector.spans()), implied(&runs).await);
}
