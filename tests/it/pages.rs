//! Lists and their pages.

use answerable_testkit::ModelReply;
use serde_json::{Value, json};

use crate::harness::{World, seconds_from_now};

#[tokio::test]
async fn pages_follow_one_another_and_hold_still_while_runs_come() {
    let world = World::shared().await;
    let later = json!({"not_before": seconds_from_now(3600.0)});
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.start_with(&world.agent(&[]), later.clone()).await.id);
    }
    let page = |query: String| world.client.get(&format!("/v1/runs?limit=2{query}")).send();
    let first = page(String::new())
        .await
        .fits(&json!({"data": [{"id": ids[4]}, {"id": ids[3]}], "next_cursor": "*"}));
    world.start_with(&world.agent(&[]), later).await;
    let next = |page: &Value| format!("&cursor={}", page["next_cursor"].as_str().expect("a cursor"));
    let second = page(next(&first)).await.fits(&json!({"data": [{"id": ids[2]}, {"id": ids[1]}]}));
    page(next(&second)).await.fits(&json!({"data": [{"id": ids[0]}], "next_cursor": null}));
    world.client.get("/v1/runs?limit=6").await.fits(&json!({"data": {"$len": 6}, "next_cursor": null}));
    for (query, name) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=many", "limit"),
        ("cursor=none-of-yours", "cursor"),
    ] {
        world.client.get(&format!("/v1/runs?{query}")).await.refused_at(&format!("/query/{name}"));
    }
    // A place in one list is none in another.
    let elsewhere = format!("/v1/agents?{}", next(&first).trim_start_matches('&'));
    world.client.get(&elsewhere).await.refused_at("/query/cursor");
}

#[tokio::test]
async fn a_runs_own_lists_have_pages_too() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("look", json!({}))]), ModelReply::text("Seen.")]);
    let run = world.start(&world.agent(&[world.read("look")])).await;
    run.ended().await;
    for list in ["events", "messages", "steps"] {
        let whole = run.list(list).await;
        let whole = whole.as_array().expect("a list");
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = world.client.get(&run.path(&format!("/{list}?limit=1{cursor}"))).await.ok();
            found.extend(page["data"].as_array().expect("a list").clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(&found, whole, "{list}");
    }
    world.client.get(&run.path("/events?after=3&limit=1")).await.fits(&json!({"data": [{"seq": 4}]}));
    let step = world.client.get(&run.path("/steps/1")).await;
    step.fits(&json!({"number": 1, "context": {"included": "*", "omitted": [], "tokens": {"$ge": 1}}, "tool_calls": {"$len": 1}}));
    world.client.get(&run.path("/steps/3")).await.refused(404, "not_found");
    world.client.get(&run.path("/steps/zero")).await.refused(404, "not_found");
}

#[tokio::test]
async fn runs_are_found_by_what_they_are() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("one")]);
    let agent = world.agent(&[]);
    let done = world.start_with(&agent, json!({"metadata": {"order": "77", "shop": "north"}})).await;
    done.ended().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let later = json!({
        "thread_id": thread, "metadata": {"order": "78", "shop": "north"}, "not_before": seconds_from_now(3600.0),
    });
    let queued = world.start_with(&agent, later).await;
    let thread = thread.as_str().expect("an id");
    let table: [(String, Vec<&str>); 8] = [
        ("status=finished".to_owned(), vec![&done.id]),
        ("status=queued".to_owned(), vec![&queued.id]),
        ("metadata.order=77".to_owned(), vec![&done.id]),
        ("metadata.shop=north".to_owned(), vec![&queued.id, &done.id]),
        ("metadata.shop=north&status=queued".to_owned(), vec![&queued.id]),
        ("metadata.shop=south".to_owned(), vec![]),
        (format!("thread_id={thread}"), vec![&queued.id]),
        ("agent_id=agt_00000000-0000-7000-8000-000000000000".to_owned(), vec![]),
    ];
    for (query, wanted) in table {
        let found = world.client.get(&format!("/v1/runs?{query}")).await.ok();
        let ids: Vec<&str> =
            found["data"].as_array().expect("a list").iter().filter_map(|run| run["id"].as_str()).collect();
        assert_eq!(ids, wanted, "{query}");
    }
    queued.cancel().await;
}

#[tokio::test]
async fn usage_adds_up() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("one").usage(100, 7), ModelReply::text("two").usage(50, 3)]);
    for _ in 0..2 {
        world.start(&world.agent(&[])).await.ended().await;
    }
    for group in ["day", "agent", "model"] {
        let usage = world.client.get(&format!("/v1/usage?group_by={group}")).await;
        usage.fits(&json!({"data": [{"runs": 2, "steps": 2, "input_tokens": 150, "output_tokens": 10, "tokens": 160}]}));
    }
    world.client.get("/v1/usage").await.ok();
    world.client.get("/v1/usage?group_by=colour").await.refused_at("/query/group_by");
}
