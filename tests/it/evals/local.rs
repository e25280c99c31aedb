//! A server of its own: begun for the cases, and gone after them.

use std::fs;

use super::command::{BAD, Folder, GOOD, PATIENCE, end};

#[tokio::test]
async fn a_server_of_its_own_is_gone_afterwards() {
    let folder = Folder::new(&[("good.yaml", GOOD), ("bad.yaml", BAD)]);
    let ended = end(folder.program(&["eval", "."])).await.is(1);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(
        lines[0].starts_with("case ") && lines[1].starts_with("bad ") && lines[1].contains("failed"),
        "{}",
        ended.out
    );
    assert_eq!(lines[2], "    expect.answer.contains: expected \"On its way\" in it, got \"I don't know.\"");
    assert!(lines[3].starts_with("good ") && lines[3].contains("passed"), "{}", ended.out);
    assert!(lines[5].starts_with("1 passed, 1 failed in "), "{}", ended.out);
    let left: Vec<_> = fs::read_dir(folder.path().join("tmp")).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn an_interrupt_takes_everything_away() {
    let slow = "input: hi\nagent: {tools: [{name: look, side_effect: none}]}\nmodel: [{tool_calls: [{name: look}]}, {final: x}]\n\
        tools: {look: [{text: x, delay_ms: 60000}]}\nexpect: {status: finished}\n";
    let folder = Folder::new(&[("a.yaml", GOOD), ("b.yaml", slow)]);
    let mut child = folder.program(&["eval", "a.yaml", "b.yaml"]).spawn().expect("it starts");
    // The first case is over, so the second is under way.
    let mut out = tokio::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("passed") {
        line.clear();
        let read = tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line).await.expect("text");
        assert_ne!(read, 0, "it ended before it was interrupted");
    }
    let id = child.id().expect("it runs").cast_signed();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGINT)
        .expect("a signal");
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("a status");
    assert_eq!(status.code(), Some(130));
    let left: Vec<_> = fs::read_dir(folder.path().join("tmp")).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}
