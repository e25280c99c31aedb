//! Watching a run: streams that can be left, resumed and shared, and that cost the run nothing.

use answerable_testkit::{ModelReply, ToolAnswer};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Fits, Run, With, World, seconds_from_now};

async fn looks(world: &World) -> Run<'_> {
    world.model.script(
        "m",
        [ModelReply::calls([("look", json!({}))]).and_text("Hello "), ModelReply::text("Hello world")],
    );
    world.start(&world.agent(&[world.read("look")])).await
}

#[tokio::test]
async fn a_stream_and_the_list_are_one() {
    let world = World::shared().await;
    let run = looks(&world).await;
    let live: Vec<Value> =
        run.stream(None).await.rest().await.into_iter().filter(|e| e.id.is_some()).map(|e| e.data).collect();
    run.ended().await;
    let list = run.list("events").await;
    assert_eq!(Value::from(live), list);
    let again: Vec<Value> = run.stream(None).await.rest().await.into_iter().map(|event| event.data).collect();
    assert_eq!(Value::from(again), list);
    list.fits(&json!({"$any": [{"seq": 1, "type": "run.queued", "run_id": run.id}]}));
}

#[tokio::test]
async fn a_stream_is_resumed_without_gap_or_repeat_and_ends_with_204() {
    let world = World::shared().await;
    let run = looks(&world).await;
    run.ended().await;
    let last = run.list("events").await.as_array().expect("a list").len() as u64;
    for place in 0..last {
        let events = run.stream(Some(place)).await.rest().await;
        let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
        assert_eq!(ids, (place + 1..=last).collect::<Vec<u64>>());
    }
    let by_query = world.client.stream(&run.path("/events?after=5"), None).await.rest().await;
    assert_eq!(by_query[0].id, Some(6));
    // The header goes before the query.
    let both = world.client.stream(&run.path("/events?after=5"), Some(2)).await.rest().await;
    assert_eq!(both[0].id, Some(3));
    for place in [last, 9999] {
        assert_eq!(run.stream(Some(place)).await.status, 204);
    }
}

#[tokio::test]
async fn a_live_stream_that_is_left_again_and_again_misses_nothing() {
    let world = World::shared().await;
    world.tools.script("look", (1..=4).map(|n| ToolAnswer::json(&json!({"n": n}))));
    world.model.script("m", [1; 4].map(|n| ModelReply::calls([("look", json!({"n": n}))])));
    world.model.script("m", [ModelReply::text("Seen.")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    let mut seen = Vec::new();
    loop {
        let mut stream = run.stream(seen.last().copied()).await;
        if stream.status == 204 {
            break;
        }
        let mut taken = 0;
        while taken < 3 {
            let Some(event) = stream.next().await else { break };
            if let Some(id) = event.id {
                seen.push(id);
                taken += 1;
            }
        }
    }
    let last = run.list("events").await.as_array().expect("a list").len() as u64;
    assert_eq!(seen, (1..=last).collect::<Vec<u64>>());
    run.ended().await;
}

#[tokio::test]
async fn leaving_a_stream_changes_nothing() {
    let world = World::shared().await;
    world.tools.script("pay", [ToolAnswer::default().held()]);
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay")])).await;
    world.tools.reached("pay", 1).await;
    let mut stays = run.stream(None).await;
    drop(run.stream(None).await.take(3).await);
    drop(run.stream(Some(2)).await);
    world.tools.release("pay");
    let shown = run.ended().await;
    shown.fits(&json!({"status": "finished"}));
    let first = stays.next().await.expect("an event");
    assert_eq!(first.id, Some(1));
    assert_eq!(stays.rest().await.last().expect("events").kind, "run.finished");
}

#[tokio::test]
async fn events_come_while_they_happen() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    let mut stream = run.stream(None).await;
    while stream.next().await.expect("an event").kind != "run.waiting" {}
    run.approve().await;
    let rest: Vec<String> = stream.rest().await.into_iter().map(|event| event.kind).collect();
    assert_eq!(rest.first().map(String::as_str), Some("approval.decided"));
    assert_eq!(rest.last().map(String::as_str), Some("run.finished"));
    run.ended().await;
}

#[tokio::test]
async fn the_models_words_come_as_it_says_them_and_are_not_kept() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Hello big world").held()]);
    let run = world.start(&world.agent(&[])).await;
    world.model.requests_reached(1).await;
    let mut stream = run.stream(None).await;
    while stream.next().await.expect("an event").kind != "model.started" {}
    world.model.release();
    let rest = stream.rest().await;
    let words = rest
        .iter()
        .filter(|event| event.kind == "model.delta")
        .filter_map(|event| event.data["text"].as_str());
    assert_eq!(words.collect::<String>(), "Hello big world");
    run.ended().await;
    assert!(run.event_types().await.iter().all(|kind| kind != "model.delta"));
}

#[tokio::test]
async fn words_beside_a_call_are_not_the_answer() {
    let world = World::shared().await;
    let run = looks(&world).await;
    run.ended().await.fits(&json!({"final_answer": "Hello world"}));
    run.list("messages").await.fits(&json!({"$any": [
        {"role": "assistant", "content": "~Hello "}, {"role": "assistant", "content": "Hello world"},
    ]}));
}

#[tokio::test]
async fn many_watchers_hold_up_nobody() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))]), ModelReply::text("Paid.")]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.waiting().await;
    let watchers = join_all((0..100).map(|_| run.stream(None))).await;
    // Some vanish, the others see the end.
    let staying = watchers.into_iter().skip(40);
    world.model.script("other", [ModelReply::text("Done.")]);
    let other = world.agent(&[]).with(json!({"model": {"model": "other"}}));
    world.start(&other).await.ended().await.fits(&json!({"status": "finished"}));
    run.approve().await;
    let all = join_all(staying.map(|stream| stream.rest())).await;
    for mut events in all {
        assert_eq!(events.pop().map(|event| event.kind).as_deref(), Some("run.finished"));
    }
    run.ended().await;
}

#[tokio::test]
async fn a_stream_of_a_run_that_starts_later_begins_at_once() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start_with(&world.agent(&[]), json!({"not_before": seconds_from_now(1.0)})).await;
    let mut stream = run.stream(None).await;
    assert_eq!(stream.next().await.expect("an event").kind, "run.queued");
    let rest = stream.rest().await;
    assert_eq!(rest.last().expect("events").kind, "run.finished");
    run.ended().await;
}

#[tokio::test]
async fn places_that_can_not_be_are_refused() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let ask = |path: &str| world.client.get(&run.path(path)).header("accept", "text/event-stream");
    for place in ["nonsense", "-1", "1.5", "99999999999999999999"] {
        ask("/events").header("last-event-id", place).await.refused_at("/header/last-event-id");
        ask(&format!("/events?after={place}")).await.refused_at("/query/after");
    }
}
