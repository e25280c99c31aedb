//! What the exit status and the reports say.

use serde_json::json;

use super::command::{BAD, Folder, GOOD, end, on};
use crate::harness::World;

#[tokio::test]
async fn the_exit_status_tells_a_failed_case_from_one_that_could_not_be_played() {
    let world = World::shared().await;
    let misspelt = BAD.replace("expect:", "expects:");
    let folder =
        Folder::new(&[("good.yaml", GOOD), ("bad.yaml", BAD), ("wrong.yaml", &misspelt), ("note.txt", "x")]);
    let eval = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["eval"].iter().chain(arguments).copied().collect();
        end(on(&world.server, folder.program(&arguments)))
    };
    eval(&["good.yaml"]).await.is(0);
    eval(&["good.yaml", "bad.yaml"]).await.is(1);
    for (arguments, complaint) in [
        (&["wrong.yaml"][..], "wrong.yaml: expects: unknown field `expects`"),
        (&["nowhere.yaml"], "nowhere.yaml: "),
        (&["note.txt"], "note.txt: a case ends with .yaml, .yml or .json"),
        (&["good.yaml", "-k", "nothing"], "there are no such cases"),
        (&["good.yaml", "--tag", "none"], "there are no such cases"),
        (&["good.yaml", "--json", "good.yaml/x.json"], "good.yaml/x.json: "),
        (&["good.yaml", "--url", "http://127.0.0.1:1"], "no server answers"),
        (&["good.yaml", "--provider", "x"], "--model"),
        (&["good.yaml", "--pass-rate", "2"], "0 to 1"),
        (&[], "<CASES>"),
    ] {
        let ended = eval(arguments).await.is(2);
        assert!(ended.complaint.contains(complaint), "{arguments:?}: {}", ended.complaint);
    }
}

#[tokio::test]
async fn reports_say_what_failed_and_what_happened() {
    let world = World::shared().await;
    let folder = Folder::new(&[("good.yaml", GOOD), ("bad.yaml", BAD)]);
    let command = folder.program(&["eval", ".", "--json", "r.json", "--junit", "r.xml", "--verbose"]);
    let ended = end(on(&world.server, command)).await.is(1);
    assert!(ended.out.contains("    | ") && ended.out.contains("model      replied"), "{}", ended.out);
    let report = folder.json("r.json");
    assert_eq!((&report["object"], &report["passed"]), (&json!("eval_report"), &json!(false)));
    assert_eq!(report["totals"], json!({"cases": 2, "passed": 1, "failed": 1, "skipped": 0, "plays": 2}));
    let (bad, good) = (&report["cases"][0], &report["cases"][1]);
    assert_eq!(
        (&bad["name"], &bad["verdict"], &good["tags"]),
        (&json!("bad"), &json!("failed"), &json!(["good"]))
    );
    let finding = &bad["plays"][0]["findings"][0];
    assert_eq!(
        (&finding["place"], &finding["got"]),
        (&json!("expect.answer.contains"), &json!("\"I don't know.\""))
    );
    assert_eq!(
        (&good["plays"][0]["run"]["tool_calls"], &good["plays"][0]["run"]["tokens"]),
        (&json!(1), &json!(30))
    );
    let xml = folder.text("r.xml");
    assert!(
        xml.contains(
            "<testsuite name=\"answerable eval\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""
        ),
        "{xml}"
    );
    assert!(xml.contains("<failure type=\"finding\" message=\"expect.answer.contains: expected"), "{xml}");
    assert!(xml.contains("<system-out>") && xml.contains("run        finished"), "{xml}");
}

#[tokio::test]
async fn a_case_that_fails_first_can_be_the_last() {
    let world = World::shared().await;
    let folder = Folder::new(&[("a.yaml", BAD), ("b.yaml", GOOD)]);
    let command = folder.program(&["eval", ".", "--fail-fast", "-j", "1"]);
    let ended = end(on(&world.server, command)).await.is(1);
    assert!(ended.out.contains("    another case failed first\n"), "{}", ended.out);
    assert!(ended.out.contains("\n0 passed, 1 failed, 1 skipped in "), "{}", ended.out);
}
