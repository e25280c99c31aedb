//! Real models and tools.

use answerable_testkit::{ModelReply, ScriptedModel};
use serde_json::json;

use super::command::{Folder, GOOD, end, on};
use crate::harness::{With, World};

/// A model that plays a real one: right three times out of four.
async fn moody() -> ScriptedModel {
    let model = ScriptedModel::start().await.expect("a model");
    model.require_key("sk-real-0123456789");
    let answers = ["On its way.", "On its way.", "No idea, sk-real-0123456789.", "On its way."];
    model.script("m", answers.map(ModelReply::text));
    model
}

#[tokio::test]
async fn a_real_model_is_asked_several_times_and_may_be_wrong_now_and_then() {
    let world = World::shared().await;
    let live = "input: Where is order 7?\nagent: {}\nmodel: live\nexpect: {answer: {contains: On its way}}\n";
    let folder = Folder::new(&[("live.yaml", live), ("good.yaml", GOOD)]);
    for (rate, status) in [("0.75", 0), ("0.8", 1)] {
        let model = moody().await;
        let base = model.base_url();
        let mut command = folder.program(&[
            "eval",
            "live.yaml",
            "--model",
            "m",
            "--provider",
            &base,
            "--provider-key-env",
            "MODEL_KEY",
            "--repeat",
            "4",
            "-j",
            "1",
            "--pass-rate",
            rate,
            "--json",
            "r.json",
            "--junit",
            "r.xml",
            "-v",
        ]);
        command.env("MODEL_KEY", "sk-real-0123456789");
        let ended = end(on(&world.server, command)).await.is(status);
        assert!(ended.out.contains(" 3/4 "), "{}", ended.out);
        assert_eq!(folder.json("r.json")["cases"][0]["pass_rate"], json!(0.75));
        for told in [&ended.out, &ended.complaint, &folder.text("r.json"), &folder.text("r.xml")] {
            assert!(!told.contains("sk-real-"), "{told}");
        }
        assert_eq!(model.requests_for("m").len(), 4);
    }
    // Without one it can't be played.
    let ended = end(on(&world.server, folder.program(&["eval", "."]))).await.is(0);
    assert!(ended.out.contains("it needs a real model: give --model"), "{}", ended.out);
    let ended = end(on(&world.server, folder.program(&["eval", "live.yaml"]))).await.is(2);
    assert!(ended.complaint.contains("nothing was played"), "{}", ended.complaint);
}

#[tokio::test]
async fn real_tools_are_called_where_the_agent_says() {
    let world = World::shared().await;
    let agent = json!({"tools": [world.read("look")]});
    let case = json!({"input": "look", "agent": agent, "model": [{"tool_calls": [{"name": "look", "arguments": {"at": "door"}}]}, {"final": "Seen."}],
        "tools": {"look": [{"text": "a blue door"}]}, "expect": {"tools": {"called": [{"name": "look", "result": "ok"}]}}});
    let recorded =
        case.clone().with(json!({"expect": {"tools": {"called": [{"name": "look", "result": "blue"}]}}}));
    let folder = Folder::new(&[("real.json", &case.to_string()), ("told.json", &recorded.to_string())]);
    end(on(&world.server, folder.program(&["eval", "real.json", "--tools", "live"]))).await.is(0);
    assert_eq!(world.tools.requests("look").len(), 1);
    assert_eq!(world.tools.requests("look")[0].json(), json!({"at": "door"}));
    end(on(&world.server, folder.program(&["eval", "told.json"]))).await.is(0);
    assert_eq!(world.tools.requests("look").len(), 1);
}
