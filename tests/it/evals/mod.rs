//! `answerable eval`: our own cases, and the command as CI systems and people meet it.

mod command;
mod live;
mod local;
mod made;
mod places;
mod statuses;

use serde_json::Value;

use command::{Folder, end};

const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/evals");

#[tokio::test]
async fn our_own_cases_pass() {
    // On a server of their own: those of the tests give a run up after a second and a half, which on a busy machine has a
    // model asked twice.
    let folder = Folder::new(&[]);
    let command = folder.program(&["eval", OURS, "-j", "4", "--json", "r.json", "--junit", "out/r.xml"]);
    let ended = end(command).await.is(0);
    let report: Value = folder.json("r.json");
    let totals = &report["totals"];
    assert!(totals["passed"].as_u64() >= Some(60) && totals["passed"] == totals["cases"], "{}", ended.out);
    let xml = folder.text("out/r.xml");
    assert_eq!(xml.matches("<testcase ").count() as u64, totals["cases"].as_u64().expect("a number"));
    assert!(!xml.contains("<failure") && !xml.contains("<skipped"), "{xml}");
    for word in ["missing-context/", "dangerous/", "injection/", "uncertain/"] {
        assert!(ended.out.contains(word), "{}", ended.out);
    }
}
