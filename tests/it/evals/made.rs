//! Cases made from runs.

use std::fs;

use answerable_testkit::{ModelReply, ToolAnswer};
use serde_json::{Value, json};

use super::command::{Folder, end, key_of, on};
use crate::child_runs;
use crate::harness::{Fits, With, World, client_tool};

/// A run that met a failing model, a failing tool, an edited approval, a denial, a client tool and a word.
async fn eventful(world: &World) -> String {
    let refund = |cents: u64| ModelReply::calls([("refund", json!({"cents": cents}))]);
    world.tools.script("find", [ToolAnswer::status(404), ToolAnswer::json(&json!({"state": "shipped"}))]);
    world.model.script(
        "m",
        [
            ModelReply::status(503),
            ModelReply::calls([("find", json!({"id": 8}))]),
            ModelReply::calls([("find", json!({"id": 7}))]).and_text("Perhaps the next.").held(),
            refund(90_000),
            refund(80_000),
            ModelReply::calls([("ask_user", json!({"q": "anything else?"}))]),
            ModelReply::text("All is done.").usage(50, 6),
        ],
    );
    let agent = world.agent(&[
        world.read("find"),
        world.write("refund").with(json!({"risk": "high"})),
        client_tool("ask_user"),
    ]);
    let run =
        world.start_with(&agent, json!({"context": {"user": "u-1"}, "budgets": {"max_steps": 12}})).await;
    world.model.requests_reached(3).await;
    run.steer("Be quick.").await.ok();
    world.model.release();
    run.decide(&json!({"decision": "approve", "input": {"cents": 50_000}, "reason": "half of it"}))
        .await
        .ok();
    run.deny("that was enough").await;
    let call = run.open_call().await;
    run.submit(&call, "no, thanks").await.ok();
    let ended = run.ended().await;
    assert_eq!(ended["final_answer"], "All is done.", "{ended:#}");
    run.id.clone()
}

#[tokio::test]
async fn a_case_made_from_a_run_passes_at_once_and_notices_a_change() {
    let (world, folder) = (World::shared().await, Folder::new(&[]));
    let run = eventful(&world).await;
    let key = key_of(&world).await;
    let new = |arguments: &[&str]| {
        let mut command = folder.program(&["eval", "new"]);
        command.args(arguments).env("ANSWERABLE_URL", world.server.url()).env("ANSWERABLE_API_KEY", &key);
        end(command)
    };
    new(&[&run, "--out", "made.yaml", "--name", "eventful"]).await.is(0);
    let printed = new(&[&run]).await.is(0).out;
    let export = world.client.get(&format!("/v1/runs/{run}/export")).await.ok();
    fs::write(folder.path().join("raw.json"), export.to_string()).expect("a case");
    let made = folder.text("made.yaml");
    assert_eq!(made, format!("name: eventful\n{printed}"));
    for line in [
        "- http: 503",
        "  - name: refund",
        "- steer: Be quick.",
        "    reason: half of it",
        "    equals: All is done.",
        "  denied:",
    ] {
        assert!(made.lines().any(|other| other == line), "{line}\n{made}");
    }
    assert!(!made.contains(world.provider_key()), "{made}");
    let asked = world.model.requests().len();
    let ended = end(on(&world.server, folder.program(&["eval", "made.yaml", "raw.json", "-v"]))).await.is(0);
    assert!(ended.out.contains("\n2 passed in "), "{}", ended.out);
    assert_eq!(world.model.requests().len(), asked, "nobody is asked again");
    // The agent that may no longer refund is another one.
    let changed = made.replace("  - name: refund\n", "  - name: give_back\n");
    fs::write(folder.path().join("changed.yaml"), changed).expect("a case");
    let ended = end(on(&world.server, folder.program(&["eval", "changed.yaml"]))).await.is(1);
    assert!(ended.out.contains("expect.tools.called"), "{}", ended.out);
    // What is there is not written over, and a run that nobody knows is none.
    let again = new(&[&run, "--out", "made.yaml"]).await.is(1);
    assert!(again.complaint.contains("made.yaml: "), "{}", again.complaint);
    let unknown = new(&["run_00000000-0000-7000-8000-000000000000"]).await.is(1);
    assert!(unknown.complaint.contains("404 not_found"), "{}", unknown.complaint);
}

#[tokio::test]
async fn a_case_of_a_run_that_summed_up_plays_again() {
    let (world, folder) = (World::shared().await, Folder::new(&[]));
    let untold = |text: &str| ModelReply::text(text).usage_as(Value::Null);
    world.model.script("m", [ModelReply::status(503), untold("Ann counted."), untold("Done.")]);
    let agent = world.agent(&[]).with(json!({"context": {"max_tokens": 800, "overflow": "summarize"}}));
    let run = world.start_with(&agent, json!({"input": crate::contexts::talk(21)})).await;
    run.ended().await;
    let export = world.client.get(&run.path("/export")).await.ok();
    export["model"][1].fits(&json!({"purpose": "summary", "step": 1, "text": "Ann counted."}));
    fs::write(folder.path().join("raw.json"), export.to_string()).expect("a case");
    let ended = end(on(&world.server, folder.program(&["eval", "raw.json", "-v"]))).await.is(0);
    assert!(ended.out.contains("\n1 passed in "), "{}", ended.out);
}

#[tokio::test]
async fn a_call_of_another_agent_plays_what_that_one_said() {
    let (world, folder) = (World::shared().await, Folder::new(&[]));
    let helper = child_runs::agent(&world, "helper", &[], json!({})).await;
    world.model.script("helper", [ModelReply::text("seven")]);
    let asks = ModelReply::calls([("ask_helper", json!({"input": "how many?"}))]);
    world.model.script("m", [asks, ModelReply::text("There are seven.")]);
    let ask = child_runs::agent_tool("ask_helper", &helper).with(json!({"timeout_ms": 86_400_000}));
    let run = world.start(&world.agent(&[ask])).await;
    run.ended().await;
    let mut command = folder.program(&["eval", "new"]);
    command.args([&run.id, "--out", "made.yaml", "--name", "helped"]);
    command.env("ANSWERABLE_URL", world.server.url()).env("ANSWERABLE_API_KEY", key_of(&world).await);
    end(command).await.is(0);
    // There is no such agent where it is played, and none is asked.
    let asked = world.model.requests().len();
    let ended = end(on(&world.server, folder.program(&["eval", "made.yaml", "-v"]))).await.is(0);
    assert!(ended.out.contains("\n1 passed in "), "{}", ended.out);
    assert_eq!(world.model.requests().len(), asked);
    // Without what it said the run doesn't go as it went.
    let made = folder.text("made.yaml");
    let changed = made.replace("tool_name: ask_helper", "tool_name: ask_nobody");
    assert_ne!(changed, made, "{made}");
    fs::write(folder.path().join("changed.yaml"), changed).expect("a case");
    end(on(&world.server, folder.program(&["eval", "changed.yaml"]))).await.is(1);
}
