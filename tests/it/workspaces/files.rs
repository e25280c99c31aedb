//! Files over the API.

use answerable_testkit::ModelReply;
use reqwest::Method;
use serde_json::{Value, json};

use super::{path, paths, put, read, workspace};
use crate::harness::{Fits, World};

/// A workspace: a thread's.
async fn new(world: &World) -> String {
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201);
    thread["workspace_id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn what_is_put_is_shown_as_it_was() {
    let world = World::shared().await;
    let id = new(&world).await;
    let ask = world.client.ask(Method::PUT, &path(&id, "pictures/gr%C3%B6%C3%9Fer%20%25.svg"));
    let stored = ask.raw("image/svg+xml", "<svg onload='x'/>").await;
    assert_eq!(stored.header("etag"), Some("\"1\""));
    stored.fits(&json!({"path": "pictures/größer %.svg", "version": 1, "bytes": 17}));
    let shown = world.client.get(&path(&id, "pictures/gr%C3%B6%C3%9Fer%20%25.svg")).await;
    assert_eq!(shown.text, "<svg onload='x'/>");
    for (name, value) in [
        ("content-type", "image/svg+xml"),
        ("etag", "\"1\""),
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
    ] {
        assert_eq!(shown.header(name), Some(value));
    }
    let listed = world.client.get(&format!("/v1/workspaces/{id}/files")).await;
    listed.fits(&json!({"data": [{"path": "pictures/größer %.svg", "version": 1, "bytes": 17,
        "media_type": "image/svg+xml", "sha256": "*", "updated_at": "*", "updated_by": "~key_"}], "next_cursor": null}));
}

#[tokio::test]
async fn changes_can_be_bound_to_what_is_there() {
    let world = World::shared().await;
    let id = new(&world).await;
    let put = |tag: (&'static str, &'static str), content: &'static str| {
        let ask = world.client.ask(Method::PUT, &path(&id, "a.txt"));
        ask.header(tag.0, tag.1).raw("text/plain", content)
    };
    put(("if-match", "*"), "zero").await.refused(412, "precondition_failed");
    put(("if-none-match", "*"), "one").await.is(200);
    put(("if-none-match", "*"), "two").await.refused(412, "precondition_failed");
    put(("if-match", "\"1\""), "two").await.is(200);
    for stale in ["\"1\"", "\"99\"", "W/\"2\"", "2", "\"other\""] {
        put(("if-match", stale), "three").await.refused(412, "precondition_failed");
        let delete = world.client.delete(&path(&id, "a.txt")).header("if-match", stale);
        delete.await.refused(412, "precondition_failed");
    }
    put(("if-match", "\"1\", \"2\""), "three").await.refused_at("/header/if-match");
    put(("if-none-match", "\"2\""), "three").await.refused_at("/header/if-none-match");
    assert_eq!(read(&world.client, &id, "a.txt").await, "two");
    let unless = world.client.delete(&path(&id, "a.txt")).header("if-none-match", "*");
    unless.await.refused_at("/header/if-none-match");
    world.client.delete(&path(&id, "a.txt")).header("if-match", "\"2\"").await.is(204);
    let unless = world.client.delete(&path(&id, "a.txt")).header("if-none-match", "*");
    unless.await.refused_at("/header/if-none-match");
    world.client.delete(&path(&id, "a.txt")).await.refused(404, "not_found");
    world
        .client
        .delete(&path(&id, "a.txt"))
        .header("if-match", "*")
        .await
        .refused(412, "precondition_failed");
    world.client.get(&path(&id, "a.txt")).await.refused(404, "not_found");
}

#[tokio::test]
async fn lists_have_pages_and_prefixes() {
    let world = World::shared().await;
    let id = new(&world).await;
    for number in 0..7 {
        put(&world.client, &id, &format!("notes/{number}.txt"), "x").await.is(200);
    }
    let deep = format!("{}/{}", "d".repeat(200), "long".repeat(50));
    put(&world.client, &id, &deep, "x").await.is(200);
    put(&world.client, &id, "z", "x").await.is(200);
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.client.get(&format!("/v1/workspaces/{id}/files?limit=2{cursor}")).await.ok();
        found.extend(page["data"].as_array().expect("a list").iter().map(|file| file["path"].clone()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((found.len(), &found[0], found[8].as_str()), (9, &Value::from(deep), Some("z")));
    let some = |query: &str| world.client.get(&format!("/v1/workspaces/{id}/files?{query}"));
    some("prefix=notes/").await.fits(&json!({"data": {"$len": 7}}));
    some("prefix=/notes/1").await.fits(&json!({"data": [{"path": "notes/1.txt"}]}));
    some("prefix=%25").await.fits(&json!({"data": []}));
    some("prefix=..").await.refused_at("/query/prefix");
    let page = some("prefix=notes/&limit=2").await.ok();
    let next = page["next_cursor"].as_str().expect("a cursor");
    some(&format!("prefix=z&cursor={next}")).await.refused_at("/query/cursor");
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    let world = World::shared().await;
    let id = new(&world).await;
    for file in [
        "..%2F..%2Fetc%2Fpasswd",
        "a%2Fb",
        "a%5Cb",
        "a%00b",
        "a%0Ab",
        "%FF",
        "a//b",
        "a/",
        &("a/".repeat(40) + "a"),
        &"a".repeat(256),
    ] {
        put(&world.client, &id, file, "x").await.refused_at("/path/path");
        world.client.get(&path(&id, file)).await.refused_at("/path/path");
        world.client.delete(&path(&id, file)).await.refused_at("/path/path");
    }
    paths(&world.client, &id).await.fits(&json!([]));
    put(&world.client, &id, "a", "x").await.is(200);
    put(&world.client, &id, "a/b", "x").await.refused(409, "conflict");
}

#[tokio::test]
async fn files_have_bounds() {
    let world = World::shared().await;
    let id = new(&world).await;
    let large = "x".repeat((20 << 20) + 1);
    put(&world.client, &id, "a", &large).await.refused(413, "payload_too_large");
    put(&world.client, &id, "a", &large[1..]).await.fits(&json!({"bytes": 20 << 20}));
    assert_eq!(read(&world.client, &id, "a").await.len(), 20 << 20);
}

#[tokio::test]
async fn a_workspace_that_nobody_has_is_not_there() {
    let world = World::shared().await;
    let id = new(&world).await;
    put(&world.client, &id, "a.txt", "mine").await.is(200);
    let (_, stranger) = world.neighbour(&json!({})).await;
    let never = "wsp_00000000-0000-7000-8000-000000000000";
    for (client, id) in [(&stranger, id.as_str()), (&world.client, never), (&world.client, "wsp_x")] {
        client.get(&format!("/v1/workspaces/{id}/files")).await.refused(404, "not_found");
        client.get(&path(id, "a.txt")).await.refused(404, "not_found");
        put(client, id, "a.txt", "theirs").await.refused(404, "not_found");
        client.delete(&path(id, "a.txt")).await.refused(404, "not_found");
    }
    let reader = world.key(&["runs:read"]).await;
    assert_eq!(read(&reader, &id, "a.txt").await, "mine");
    put(&reader, &id, "a.txt", "x").await.refused(403, "forbidden");
    reader.delete(&path(&id, "a.txt")).await.refused(403, "forbidden");
    let writer = world.key(&["runs:write"]).await;
    writer.get(&path(&id, "a.txt")).await.refused(403, "forbidden");
    put(&writer, &id, "a.txt", "by another key").await.is(200);
}

#[tokio::test]
async fn a_run_that_was_only_accepted_has_a_workspace() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    let id = workspace(&run).await;
    paths(&world.client, &id).await.fits(&json!([]));
    put(&world.client, &id, "a.txt", "x").await.is(200);
    run.ended().await;
    put(&world.client, &id, "a.txt", "after its end").await.is(200);
}
