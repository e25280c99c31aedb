//! A run's spans: what is in them, whose trace they are in, and what requests carry of them. That they are one tree, and
//! agree with the ledger, is looked at for every run of every test.

use std::sync::Arc;

use answerable_testkit::{ModelReply, TestDatabase, ToolAnswer};
use serde_json::{Value, json};

use crate::harness::traces::{self, Span};
use crate::harness::{Fits, Run, Server, With, World};

/// The spans of that name, in the order in which they ended.
fn named<'s>(spans: &'s [Span], name: &str) -> Vec<&'s Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// The trace and span that a `traceparent` names.
fn names(traceparent: Option<&str>) -> (String, String) {
    let parts: Vec<&str> = traceparent.expect("a traceparent").split('-').collect();
    let [version, trace, span, flags] = parts[..] else { panic!("no traceparent: {parts:?}") };
    assert_eq!((version, flags), ("00", "01"));
    (trace.to_owned(), span.to_owned())
}

fn attributes(span: &Span) -> Value {
    json!(span.attributes)
}

#[tokio::test]
async fn each_phase_has_its_span_and_each_request_names_its_own() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::status(500), ToolAnswer::default()]);
    world.model.script(
        "m",
        [
            ModelReply::status(503),
            ModelReply::calls([("look", json!({"at": "door"})), ("pay", json!({"amount": 5}))]),
            ModelReply::text("Paid."),
        ],
    );
    let look = world.read("look").with(json!({"retry": {"max_attempts": 2, "backoff_ms": 5}}));
    let pay = world.write("pay").with(json!({"risk": "high"}));
    let mut agent = world.agent(&[look, pay]);
    agent["model"]["retry"] = json!({"max_attempts": 2, "backoff_ms": 5});
    let run = world.start(&agent).await;
    run.waiting().await;
    run.approve().await;
    let shown = run.ended().await;
    let spans = traces::of(&run).await;

    let asked = named(&spans, "model.call");
    let requests = world.model.requests();
    assert_eq!((asked.len(), requests.len()), (3, 3));
    for (span, request) in asked.iter().zip(&requests) {
        assert_eq!(names(request.header("traceparent")), (span.trace_id.clone(), span.id.clone()));
    }
    assert_eq!(asked[0].error.as_deref(), Some("503"));
    attributes(asked[1]).fits(&json!({
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.provider.name": "openai",
        "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5, "openinference.span.kind": "LLM",
        "answerable.step": 1, "answerable.model.attempt": 2,
    }));

    let calls = named(&spans, "tool.call");
    let sent = [world.tools.requests("look"), world.tools.requests("pay")].concat();
    assert_eq!((calls.len(), sent.len()), (3, 3));
    for (span, request) in calls.iter().zip(&sent) {
        assert_eq!(names(request.header("traceparent")), (span.trace_id.clone(), span.id.clone()));
        assert_eq!(
            span.get("answerable.tool.idempotency_key"),
            request.header("idempotency-key").expect("a key")
        );
    }
    attributes(calls[0]).fits(&json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "answerable.tool.status": "unclear",
        "answerable.tool.retry_count": 0, "answerable.tool.side_effect": "none", "error.type": "UNAVAILABLE",
        "openinference.span.kind": "TOOL",
    }));
    attributes(calls[1])
        .fits(&json!({"answerable.tool.status": "succeeded", "answerable.tool.retry_count": 1}));
    attributes(calls[2]).fits(&json!({
        "gen_ai.tool.name": "pay", "answerable.tool.status": "succeeded", "answerable.tool.side_effect": "committed",
    }));

    let decided = named(&spans, "permission.decision");
    assert_eq!(decided.len(), 2);
    attributes(decided[0]).fits(&json!({
        "answerable.tool.name": "look", "answerable.permission.effect": "allow", "openinference.span.kind": "GUARDRAIL",
    }));
    attributes(decided[1]).fits(&json!({
        "answerable.tool.name": "pay", "answerable.permission.effect": "allow", "answerable.permission.asked": true,
        "answerable.permission.by": "~key_",
    }));
    assert!(decided[1].began < decided[1].ended, "the wait for a person is one span: {decided:?}");
    let no_tool = |span: &&Span| span.attributes.keys().all(|name| !name.starts_with("gen_ai.tool"));
    assert!(decided.iter().all(no_tool));

    let [root] = named(&spans, "agent.run")[..] else { panic!("no root") };
    attributes(root).fits(&json!({
        "gen_ai.operation.name": "invoke_agent", "openinference.span.kind": "AGENT", "answerable.steps": 2,
        "answerable.tool_calls": 2, "answerable.input_tokens": 20, "answerable.output_tokens": 10,
    }));
    assert_eq!(root.get("answerable.run_id"), &shown["id"]);
    assert_eq!(named(&spans, "context.build").len(), 2);
    assert_eq!(named(&spans, "checkpoint.save").len(), 1);
}

#[tokio::test]
async fn attempts_that_died_with_their_server_are_told_as_lost() {
    let world = World::alone().await;
    world.tools.script("look", [ToolAnswer::default().held(), ToolAnswer::default()]);
    world.model.script(
        "m",
        [
            ModelReply::text("too late").held(),
            ModelReply::calls([("look", json!({}))]),
            ModelReply::text("Seen."),
        ],
    );
    let run = world.start(&world.agent(&[world.read("look")])).await;
    world.model.requests_reached(1).await;
    world.server.crash().await;
    world.tools.reached("look", 1).await;
    world.server.crash().await;
    run.ended().await;
    let spans = traces::of(&run).await;
    let fates = |name: &str| -> Vec<Option<String>> {
        named(&spans, name).iter().map(|span| span.error.clone()).collect()
    };
    let lost = Some("worker_lost".to_owned());
    assert_eq!(fates("model.call"), [lost.clone(), None, None]);
    assert_eq!(fates("tool.call"), [lost, None]);
    // Also what the lost attempts sent names their own spans.
    let sent = world.tools.requests("look");
    let (first, second) = (names(sent[0].header("traceparent")), names(sent[1].header("traceparent")));
    let ids: Vec<&str> = named(&spans, "tool.call").iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids, [first.1.as_str(), second.1.as_str()]);
    crate::journal::folds(&run).await;
}

#[tokio::test]
async fn a_caller_is_linked_and_a_trusted_one_is_the_parent() {
    const CALLER: &str = "00-11111111111111111111111111111111-2222222222222222-01";
    let world = World::shared().await;
    let (tenant, client) = world.neighbour(&json!({})).await;
    world.provider(&client, json!({})).await;
    world.model.script("m", vec![ModelReply::text("ok"); 8]);
    let asked = async |traceparent: &str| {
        let body = json!({"agent": world.agent(&[]), "input": "go"});
        let run = client.post("/v1/runs", &body).header("traceparent", traceparent).await.is(201);
        let run = world.run(&run).through(&client);
        let shown = run.when("the end", |run| run["status"] == "finished").await;
        let spans = traces::of(&run).await;
        (shown["trace_id"].as_str().expect("a trace").to_owned(), named(&spans, "agent.run")[0].clone())
    };
    let (trace, root) = asked(CALLER).await;
    assert_ne!(trace, "1".repeat(32));
    assert_eq!(
        (root.parent, root.links),
        (None, vec![json!({"traceId": "1".repeat(32), "spanId": "2".repeat(16)})])
    );

    let path = format!("/v1/tenants/{tenant}");
    let operator = world.server.operator();
    let patched = operator.patch(&path, &json!({"trust_traceparent": true})).await.ok();
    assert_eq!(patched["trust_traceparent"], true);
    let (trace, root) = asked(CALLER).await;
    assert_eq!((trace, root.parent, root.links), ("1".repeat(32), Some("2".repeat(16)), vec![]));
    for none in ["hello", "00-00000000000000000000000000000000-2222222222222222-01", ""] {
        let (trace, root) = asked(none).await;
        assert!(trace != "1".repeat(32) && trace != "0".repeat(32));
        assert_eq!((root.parent, root.links.len()), (None, 0));
    }
}

#[tokio::test]
async fn a_run_that_stands_on_another_links_to_it() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::text("Once."), ModelReply::text("Twice.")]);
    let run = world.start(&world.agent(&[])).await;
    run.ended().await;
    let more = run.client().post(&run.path("/continue"), &json!({"input": "again"})).await.is(201);
    let more = world.run(&more);
    let shown = more.ended().await;
    let (first, second) = (traces::of(&run).await, traces::of(&more).await);
    let (base, root) = (named(&first, "agent.run")[0], named(&second, "agent.run")[0]);
    assert_ne!(shown["trace_id"], json!(base.trace_id));
    assert_eq!(root.links, [json!({"traceId": base.trace_id, "spanId": base.id})]);
    // What the first used stands on its own span.
    assert_eq!((root.get("answerable.steps"), root.get("answerable.input_tokens")), (&json!(1), &json!(10)));
    crate::journal::folds(&more).await;
}

#[tokio::test]
async fn nothing_that_anybody_said_is_in_a_trace() {
    let world = World::shared().await;
    world.tools.script("look", [ToolAnswer::text("canary result"), ToolAnswer::status(400)]);
    world.model.script(
        "m",
        [
            ModelReply::calls([
                ("look", json!({"q": "canary argument"})),
                ("look", json!({"q": "canary two"})),
            ]),
            ModelReply::calls([("order", json!({"cart": "canary-cart"})), ("canary_tool", json!({}))]),
            ModelReply::text("canary answer"),
        ],
    );
    let order = world.write("order").with(json!({"idempotency_key": "order:{{input.cart}}"}));
    let mut agent = world.agent(&[world.read("look"), order]);
    agent["instructions"] = json!("canary instructions");
    // The agent alone can't let content out.
    agent["trace"] = json!({"content": true});
    let run =
        world.start_with(&agent, json!({"input": "canary input", "context": {"user": "canary user"}})).await;
    run.ended().await;
    let trace = run.client().get(&run.path("/trace")).await.ok();
    assert!(!trace.to_string().contains("canary"), "{trace:#}");
}

#[tokio::test]
async fn a_live_run_shows_what_has_ended_and_strangers_see_nothing() {
    let world = World::shared().await;
    world.model.script("m", [ModelReply::calls([("pay", json!({}))])]);
    let run = world.start(&world.agent(&[world.write("pay").with(json!({"risk": "high"}))])).await;
    run.waiting().await;
    let spans = traces::of(&run).await;
    assert!(named(&spans, "agent.run").is_empty() && named(&spans, "model.call").len() == 1);
    let (_, stranger) = world.neighbour(&json!({})).await;
    stranger.get(&run.path("/trace")).await.refused(404, "not_found");
    run.cancel().await;
    let run: &Run<'_> = &run;
    run.ended().await;
}

#[tokio::test]
async fn content_is_there_where_operator_and_agent_want_it_without_what_is_redacted() {
    let database = TestDatabase::create().await.expect("a database");
    let settings = [("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    let server = Server::start_with(&database.url, &settings).await;
    let world = World::on(Arc::new(server), Some(database)).await;
    let answer = json!({"colour": "red", "owners": [{"name": "canary Ann"}, {"name": "canary Bob"}]});
    world.tools.script("look", vec![ToolAnswer::json(&answer); 2]);
    let input = json!({"at": "door", "card": {"number": "canary 4111"}});
    for model in ["m", "quiet"] {
        world
            .model
            .script(model, [ModelReply::calls([("look", input.clone())]), ModelReply::text("It is red.")]);
    }
    let mut agent = world.agent(&[world.read("look")]);
    agent["model"]["model"] = json!("quiet");
    let quiet = world.start(&agent).await;
    quiet.ended().await;
    let trace = quiet.client().get(&quiet.path("/trace")).await.ok().to_string();
    assert!(!trace.contains("red") && !trace.contains("door"), "the agent did not want it: {trace}");

    agent["model"]["model"] = json!("m");
    agent["trace"] = json!({"content": true, "redact": ["/card/number", "/owners/*/name"]});
    let run = world.start(&agent).await;
    run.ended().await;
    let spans = traces::of(&run).await;
    assert!(!format!("{spans:?}").contains("canary"), "{spans:#?}");
    let call = named(&spans, "tool.call")[0];
    let text = |name: &str| call.get(name).as_str().expect("content").to_owned();
    assert_eq!(text("gen_ai.tool.call.arguments"), r#"{"at":"door","card":{"number":"[redacted]"}}"#);
    assert!(text("gen_ai.tool.call.result").contains(r#""colour":"red""#));
    let replies = named(&spans, "model.call");
    let said = |span: &Span| span.get("gen_ai.output.messages").as_str().expect("content").to_owned();
    assert!(said(replies[0]).contains(r#""name":"look""#) && said(replies[1]).contains("It is red."));
    let root = named(&spans, "agent.run")[0];
    assert!(said(root).contains("It is red.") && root.get("output.value") == "It is red.");
}
