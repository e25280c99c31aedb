//! Servers that are others'.

use std::fs;

use answerable_testkit::{ModelReply, TestDatabase};
use serde_json::Value;

use super::command::{Folder, GOOD, end, key_of, on};
use crate::harness::{Server, World};

#[tokio::test]
async fn a_play_takes_its_own_tenant_away() {
    let (world, folder) = (World::shared().await, Folder::new(&[("own-tenant.yaml", GOOD)]));
    let named = async || {
        let tenants = world.server.operator().get("/v1/tenants?limit=200").await.ok();
        tenants.to_string().contains("eval own-tenant")
    };
    let slow = GOOD.replace("[{body: {state: shipped}}]", "[{text: shipped, delay_ms: 1000}]");
    fs::write(folder.path().join("own-tenant.yaml"), slow).expect("a case");
    let playing = tokio::spawn(end(on(&world.server, folder.program(&["eval", "own-tenant.yaml"]))));
    while !named().await {
        assert!(!playing.is_finished(), "it made no tenant");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    playing.await.expect("it ends").is(0);
    assert!(!named().await);
}

#[tokio::test]
async fn in_a_tenant_of_others_nothing_is_left() {
    let world = World::shared().await;
    let key = key_of(&world).await;
    let secret = GOOD.replace("agent:", "secrets: {shop: made-up}\nagent:");
    let folder = Folder::new(&[("good.yaml", GOOD), ("secret.yaml", &secret)]);
    let command = |arguments: &[&str]| {
        let mut command = folder.program(arguments);
        command.env("ANSWERABLE_URL", world.server.url()).env("ANSWERABLE_API_KEY", &key);
        command
    };
    let ended = end(command(&["eval", "."])).await.is(0);
    assert!(ended.out.contains("    it brings secrets: give ANSWERABLE_OPERATOR_KEY"), "{}", ended.out);
    let names = |list: Value| -> Vec<String> {
        let data = list["data"].as_array().expect("a list").clone();
        data.iter().map(|one| one["name"].as_str().unwrap_or("run").to_owned()).collect()
    };
    assert_eq!(names(world.client.get("/v1/providers").await.ok()), ["main"]);
    assert_eq!(names(world.client.get("/v1/runs").await.ok()), Vec::<String>::new());
    end(command(&["eval", "good.yaml", "--url", world.server.url(), "--keep"])).await.is(0);
    assert_eq!(
        world.client.get("/v1/runs?metadata.eval=good").await.ok()["data"].as_array().map(Vec::len),
        Some(1)
    );
    // A provider that the tenant has can stand in for a real one.
    world.model.script("m", [ModelReply::text("On its way.")]);
    let live = "input: Where is order 7?\nagent: {}\nmodel: live\nexpect: {answer: {contains: On its way}}\n";
    fs::write(folder.path().join("live.yaml"), live).expect("a case");
    end(command(&["eval", "live.yaml", "--model", "m", "--provider", "main"])).await.is(0);
    assert_eq!(names(world.client.get("/v1/providers").await.ok()), ["main"]);
}

#[tokio::test]
async fn a_server_that_can_not_call_back_plays_what_it_can() {
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[("ANSWERABLE_EGRESS_ALLOW", "10.255.255.1")]).await;
    let write = GOOD.replace("side_effect: none", "side_effect: write");
    let refused = GOOD
        .replace("[{body: {state: shipped}}]", "[{status: 404, text: shipped to nobody}]")
        .replace("effects: {find: 1}", "effects: {find: 0}");
    let failing = "input: hi\nagent: {}\nmodel: [{http: 503}, {final: hi}]\nexpect: {status: finished}\n";
    let folder =
        Folder::new(&[("a.yaml", GOOD), ("b.yaml", &write), ("c.yaml", &refused), ("d.yaml", failing)]);
    let ended = end(on(&server, folder.program(&["eval", "."]))).await.is(0);
    assert!(ended.out.contains("\n3 passed, 1 skipped in "), "{}", ended.out);
    assert!(ended.out.contains("needs a server that can call this machine"), "{}", ended.out);
}
