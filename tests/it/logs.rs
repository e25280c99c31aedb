//! Lines of the log: what stands in them, and that nobody else writes any.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_testkit::{McpAnswer, ModelReply, TestDatabase, ToolAnswer};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Fits, Server, With, World, client_tool};
use crate::mcp::{Mcp, takes};
use crate::raw::Raw;

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

/// All that may end a line, and what speaks to a terminal, each before words that would then begin one.
const FORGED: &str = "x\r\nforged\u{1b}[31m\rforged\u{2028}forged\u{85}forged\u{b}forged";

/// Says it wherever words come in from outside: paths, headers, names, errors of tools, MCP servers and models.
async fn say_it_everywhere(world: &World) {
    for line in [
        "GET /v1/runs/run_%0d%0aforged%1b%5b31m%e2%80%a8forged?cursor=%0d%0aforged%1b HTTP/1.1\r\n",
        "GET /v1/runs HTTP/1.1\r\nTraceparent: 00-\u{2028}forged\u{85}forged\r\nX-Request-Id: \u{2028}forged\r\n",
        "GET /v1/runs HTTP/1.1\r\nX: a\u{1b}[31mforged\r\n",
        "GET /v1/runs HTTP/1.1\r\nX: a\rforged\r\n",
        "GET /v1/\u{1b}forged HTTP/1.1\r\n",
    ] {
        let mut raw = Raw::to(&world.server).await;
        let key = world.client.key().expect("a key");
        raw.send(format!("{line}Host: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n")).await;
        raw.rest().await;
    }
    // A name of two lines is one that may be refused.
    let named = world.agent(&[]).with(json!({"name": FORGED}));
    let agent = if world.client.post("/v1/agents", &named).await.status == 201 { FORGED } else { "tester" };
    let mcp = Mcp::start().await;
    let shop = mcp.server(world, "shop", &["pay"]).await;
    shop.script("tools/call", [McpAnswer::is_error(FORGED)]);
    world.tools.script("look", [ToolAnswer::text(FORGED).with_status(500)]);
    let failure = json!({"error": {"message": FORGED}}).to_string();
    let steps = [
        ModelReply::calls([("look", json!({})), (FORGED, json!({FORGED: FORGED})), ("shop__pay", json!({}))]),
        ModelReply::calls([("ask_user", json!({}))]),
        ModelReply::raw(400, "application/json", failure),
    ];
    world.model.script("m", steps);
    let tools =
        json!([world.read("look").with(json!({"retry": {"max_attempts": 1}})), client_tool("ask_user")]);
    let spec =
        takes(world, "shop", json!({"side_effect": "none"})).with(json!({"tools": tools, "name": agent}));
    let run = world.start(&spec).await;
    let call = run.open_call().await;
    // It is asked for its tools again, and the run keeps those that it had.
    shop.script("tools/list", [McpAnswer::error(-32000, FORGED)]);
    run.submit(&call, FORGED).await.ok();
    run.ended().await.fits(&json!({"stop_reason": "model_error"}));
}

/// Every line is the server's own: words from outside neither end one nor speak to the terminal of whoever reads it.
#[tokio::test]
async fn no_words_from_outside_begin_a_line() {
    for format in ["pretty", "json"] {
        let database = TestDatabase::create().await.expect("a database");
        let settings = [("ANSWERABLE_LOG", "trace"), ("ANSWERABLE_LOG_FORMAT", format)];
        let server = Server::start_with(&database.url, &settings).await;
        let world = World::on(Arc::new(server), Some(database)).await;
        say_it_everywhere(&world).await;
        let log = world.server.log_from(0);
        assert!(log.contains("keeps the tools that it had"), "the server's words did not get there");
        assert!(log.contains("forged"), "nothing of it got there");
        // The last one may be half written.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.split('\n') {
            let is_own = match format {
                "json" => serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object()),
                _ => line.split(' ').next().is_some_and(|time| time.parse::<DateTime<Utc>>().is_ok()),
            };
            assert!(is_own, "{format}: {line:?}");
            let is_line_end = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
            let odd = |c: char| c.is_ascii_control() || (format == "pretty" && is_line_end(c));
            assert!(!line.contains(odd), "{format}: {line:?}");
        }
    }
}
