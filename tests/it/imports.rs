//! `answerable tools from-openapi`: what comes of a document is taken by the API, and calls the service that it describes.

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::{Fits, With, World};

const PETS: &str = include_str!("../../crates/answerable/src/cli/tools/openapi/samples/pets.yaml");
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../openapi.yaml");

/// Runs the command; its tools, and what it said of them.
async fn imported(world: &World, arguments: &[&str]) -> (Vec<Value>, String) {
    let output = world.server.command(&[&["tools", "from-openapi"], arguments].concat()).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let tools: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (tools.as_array().expect("a list").clone(), told)
}

/// A document of orders, which the scripted far side takes.
fn orders() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Orders", "version": "1"},
        "security": [{"shop key": []}],
        "paths": {
            "/orders/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "get": {"operationId": "getOrder", "parameters": [
                    {"name": "with[]", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}]},
                "put": {"operationId": "putOrder", "requestBody": {"required": true, "content":
                    {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}},
            },
        },
        "components": {
            "securitySchemes": {"shop key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
            "schemas": {"Order": {"type": "object", "required": ["lines"], "additionalProperties": false,
                "properties": {"lines": {"type": "array", "items": {"$ref": "#/components/schemas/Line"}}}},
                "Line": {"type": "object", "properties": {"sku": {"type": "string"}, "parts": {"type": "array",
                    "items": {"$ref": "#/components/schemas/Line"}}}}},
        },
    })
}

#[tokio::test]
async fn a_document_becomes_tools_that_call_its_service() {
    let world = World::shared().await;
    world.tools.script("document", [ToolAnswer::json(&orders())]);
    let base = world.tools.url("");
    let (tools, told) = imported(&world, &[&world.tools.url("document"), "--base-url", &base]).await;
    assert!(told.contains("2 tools from Orders 1; 0 operations were left out"), "{told}");
    let host = base.trim_end_matches("/tool/");
    assert!(
        told.contains(&format!("PUT /v1/secrets/NAME), and send each there:\n  shop_key: {host}\n")),
        "{told}"
    );
    assert!(told.contains("check that none of these names is already that of a secret of yours"), "{told}");
    world.client.put("/v1/secrets/shop_key", &json!({"value": "canary-key-1"})).await.ok();
    let order = json!({"lines": [{"sku": "a", "parts": [{"sku": "b"}]}]});
    world.model.script(
        "m",
        [
            ModelReply::calls([
                ("getOrder", json!({"id": "a/7", "with": ["lines", "owner"]})),
                ("putOrder", json!({"id": "8", "body": order.clone()})),
                ("putOrder", json!({"id": "9", "body": {"lines": [{"sku": 5}]}})),
            ]),
            ModelReply::text("Done."),
        ],
    );
    let run = world.start(&world.agent(&tools)).await;
    run.ended().await.fits(&json!({"status": "finished"}));
    run.calls().await.fits(&json!([
        {"result": {"status": "succeeded"}},
        {"result": {"status": "succeeded"}},
        {"validation": "schema_violation", "result": {"content": "~/body/lines/0/sku"}},
    ]));
    let sent = world.tools.requests("orders");
    assert_eq!(sent.len(), 2);
    assert_eq!((sent[0].method.as_str(), sent[0].path.as_str()), ("GET", "/tool/orders/a%2F7"));
    let with = ["lines", "owner"].map(|value| ("with[]".to_owned(), value.to_owned()));
    assert_eq!(sent[0].query, with);
    assert_eq!((sent[1].method.as_str(), sent[1].path.as_str()), ("PUT", "/tool/orders/8"));
    assert_eq!((sent[1].json(), sent[1].query.len()), (order, 0), "the body is the order alone");
    assert!(sent.iter().all(|request| request.header("x-key") == Some("canary-key-1")));
}

#[tokio::test]
async fn whatever_comes_of_a_document_is_taken_by_the_api() {
    let world = World::shared().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (pets, made) = (folder.path().join("pets.yaml"), folder.path().join("tools.json"));
    std::fs::write(&pets, PETS).expect("written");
    let (pets, made) = (pets.to_str().expect("a path"), made.to_str().expect("a path"));
    let (tools, _) = imported(&world, &[pets]).await;
    assert_eq!(tools.len(), 7);
    let written =
        world.server.command(&["tools", "from-openapi", pets, "--out", made, "--only", "*Pet"]).await;
    assert!(written.status.success() && written.stdout.is_empty());
    let kept: Value = serde_json::from_slice(&std::fs::read(made).expect("a file")).expect("JSON");
    assert_eq!(kept.as_array().map(Vec::len), Some(3));
    // Our own document is a large one, with every style that it has.
    let (own, told) = imported(&world, &[OWN, "--base-url", "https://answerable.example"]).await;
    assert!(own.len() > 40, "{told}");
    for tools in own.chunks(100).chain([tools.as_slice()]) {
        world.client.post("/v1/agents", &world.agent(tools)).await.is(201);
    }
}

#[tokio::test]
async fn what_is_no_document_is_said_in_a_line() {
    let world = World::shared().await;
    world.tools.script("gone", [ToolAnswer::status(404)]);
    world.tools.script("old", [ToolAnswer::json(&json!({"swagger": "2.0", "paths": {}}))]);
    world.tools.script(
        "empty",
        [ToolAnswer::json(&orders().with(json!({"paths": {"/orders/{id}": {"get": null, "put": null}}})))],
    );
    let (gone, old, empty) = (world.tools.url("gone"), world.tools.url("old"), world.tools.url("empty"));
    for (source, status, words) in [
        ("/no/such/file.yaml", 1, "/no/such/file.yaml"),
        (gone.as_str(), 1, "answered 404"),
        (old.as_str(), 2, "this one has version 2.0"),
        (empty.as_str(), 1, "no operation could be turned into a tool"),
        ("http://127.0.0.1:9/x", 1, "the document can't be read"),
    ] {
        let output = world.server.command(&["tools", "from-openapi", source]).await;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{source}: {told}");
        assert!(told.lines().last().is_some_and(|line| line.contains(words)), "{source}: {told}");
        assert!(output.stdout.is_empty());
    }
}
