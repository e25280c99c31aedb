//! Commands of shell tools: over the workspace's files, in a sandbox.

use std::time::{Duration, Instant};

use answerable_testkit::{ModelReply, TestDatabase};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Fits, Run, Server, With, World, rules};

/// Longest time that something is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether commands are to be tried. That they can't be run here is no reason not to.
pub(crate) fn are_tried() -> bool {
    let is_off = std::env::var_os("ANSWERABLE_TEST_NO_SANDBOX").is_some();
    if is_off {
        eprintln!("\n!!! SKIPPED: ANSWERABLE_TEST_NO_SANDBOX is set, so that no command was run.\n");
    }
    !is_off
}

/// An agent that may run commands without asking.
fn agent(world: &World, changes: Value) -> Value {
    let tool = json!({"name": "run_command", "kind": "shell"}).with(changes);
    world.agent(&[tool]).with(rules(&[json!({"tool": "run_command", "effect": "allow"})]))
}

/// A run whose model asks for these commands, one after the other.
async fn runs<'w>(world: &'w World, commands: &[&str], more: Value) -> Run<'w> {
    let ask = |command: &&str| ModelReply::calls([("run_command", json!({"command": command}))]);
    world.model.script("m", commands.iter().map(ask).chain([ModelReply::text("Done.")]));
    world.start_with(&agent(world, json!({})), more).await
}

/// What the calls of an ended run answered.
async fn results(run: &Run<'_>) -> Value {
    run.ended().await.fits(&json!({"status": "finished"}));
    let calls = run.calls().await;
    Value::Array(calls.as_array().expect("calls").iter().map(|call| call["result"].clone()).collect())
}

/// Path of a file of the run's workspace.
async fn file(run: &Run<'_>, path: &str) -> String {
    let root = run.now().await["workspace_root"].as_str().expect("a URI").to_owned();
    format!("/v1/workspaces/{}/files/{path}", root.trim_start_matches("workspace://"))
}

/// Processes of this machine whose arguments hold `marker`.
fn processes(marker: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let arguments = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    arguments.filter(|text| String::from_utf8_lossy(text).contains(marker)).count()
}

/// Waits until there are such processes, or none.
async fn until(marker: &str, are_there: bool) {
    let deadline = Instant::now() + PATIENCE;
    while (processes(marker) > 0) != are_there {
        assert!(Instant::now() < deadline, "{marker}: {}", processes(marker));
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_command_sees_the_files_and_what_it_changes_is_kept() {
    if !are_tried() {
        return;
    }
    let world = World::shared().await;
    let thread = world.client.post("/v1/threads", &json!({})).await.is(201)["id"].clone();
    let first =
        "mkdir -p notes; echo one >notes/a.txt; echo old >old.txt; ln -s /etc/passwd link; mkfifo pipe";
    let run = runs(
        &world,
        &[first, "cat notes/a.txt; printf '\\000\\377'; echo b >b"],
        json!({"thread_id": thread}),
    )
    .await;
    results(&run).await.fits(&json!([
        {"status": "succeeded", "content": "exit code 0\nIt printed nothing.\nMade: notes/a.txt, old.txt\nNot kept: link (a link), pipe (no file: a pipe, socket or device)"},
        {"status": "succeeded", "content": "exit code 0\none\n\u{fffd}\u{fffd}\nMade: b"},
    ]));
    assert_eq!(world.client.get(&file(&run, "notes/a.txt").await).await.ok(), "one\n");
    run.list("ledger").await.fits(&json!([{"side_effect": "committed"}, {"side_effect": "committed"}]));
    // Another run of the thread, after somebody else added a file.
    let path = file(&run, "data/b.txt").await;
    let put = world.client.ask(reqwest::Method::PUT, &path).raw("text/plain", "from outside\n").send().await;
    assert_eq!(put.status, 200);
    let second = "cat data/b.txt; echo two >>notes/a.txt; rm old.txt; touch data/b.txt; exit 3";
    let run = runs(&world, &[second], json!({"thread_id": thread})).await;
    results(&run).await.fits(&json!([
        {"status": "succeeded", "content": "exit code 3\nfrom outside\nChanged: notes/a.txt\nDeleted: old.txt"},
    ]));
    assert_eq!(world.client.get(&file(&run, "notes/a.txt").await).await.ok(), "one\ntwo\n");
    world.client.get(&file(&run, "old.txt").await).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_command_sees_nothing_of_the_server() {
    if !are_tried() {
        return;
    }
    let world = World::shared().await;
    let port = world.server.url().rsplit(':').next().expect("a port").to_owned();
    let look = format!(
        "env; cat /proc/*/environ /proc/*/cmdline; ls -a / /proc/self/fd; perl -MIO::Socket::INET -e 'print \"REA\", \"CHED\" if IO::Socket::INET->new(\"127.0.0.1:{port}\")'"
    );
    let run = runs(&world, &[look.as_str()], json!({})).await;
    let seen = results(&run).await[0]["content"].as_str().expect("text").to_owned();
    assert!(seen.contains("HOME=/workspace") && seen.contains("PATH="), "{seen}");
    for secret in ["ANSWERABLE", "DATABASE", "CARGO", "postgres", "REACHED", "home\n", "root\n", "serve"] {
        assert!(!seen.contains(secret), "{secret}: {seen}");
    }
}

#[tokio::test]
async fn what_is_too_long_or_too_much_is_ended_and_changes_nothing() {
    if !are_tried() {
        return;
    }
    let world = World::shared().await;
    let call = |command: &str, ms: u64| {
        ModelReply::calls([("run_command", json!({"command": command, "timeout_ms": ms}))])
    };
    world.model.script(
        "m",
        [
            call("echo begun; echo x >x.txt; sleep 88001.5", 500),
            call("printf 'a\\000b'; sleep 88001.5", 500),
            call("yes", 20_000),
            call("head -c 30000000 /dev/zero >big", 20_000),
            call("seq 9000", 20_000),
            ModelReply::text("Done."),
        ],
    );
    let run = world.start(&agent(&world, json!({}))).await;
    results(&run).await.fits(&json!([
        {"status": "failed", "error_code": "TIMEOUT", "content": "~begun"},
        {"status": "failed", "error_code": "TIMEOUT", "content": "~a\u{fffd}b"},
        {"status": "failed", "error_code": "OUTPUT_TOO_LARGE", "content": "~printed more than is read"},
        {"status": "failed", "error_code": "INVALID_ARGUMENTS", "content": "~big has 30000000 bytes"},
        {"status": "succeeded", "truncated": true, "artifact_id": "~art_", "content": "~exit code 0\n1\n2\n"},
    ]));
    assert_eq!(processes("88001.5"), 0);
    for path in ["x.txt", "big"] {
        world.client.get(&file(&run, path).await).await.refused(404, "not_found");
    }
    run.list("ledger").await.fits(&json!([
        {"status": "failed", "side_effect": "none"}, {"status": "failed", "side_effect": "none"},
        {"status": "failed", "side_effect": "none"}, {"status": "failed", "side_effect": "none"},
        {"status": "succeeded", "side_effect": "committed"},
    ]));
}

#[tokio::test]
async fn a_cancel_ends_the_command_with_all_its_processes() {
    if !are_tried() {
        return;
    }
    let world = World::shared().await;
    let run = runs(&world, &["echo x >x.txt; setsid sleep 88002.5 & sleep 88002.5"], json!({})).await;
    until("sleep\088002.5", true).await;
    run.cancel().await;
    until("88002.5", false).await;
    run.ended().await.fits(&json!({"status": "cancelled"}));
    run.ledger_where(|ledger| ledger[0]["status"] == "failed").await.fits(&json!([{"side_effect": "none"}]));
    world.client.get(&file(&run, "x.txt").await).await.refused(404, "not_found");
}

#[tokio::test]
async fn what_somebody_changed_meanwhile_is_not_overwritten() {
    if !are_tried() {
        return;
    }
    let world = World::shared().await;
    let meanwhile = "echo mine >>a.txt; echo b >b.txt; sleep 3; sleep 0.0088003";
    let run = runs(&world, &["echo first >a.txt", meanwhile, "cat a.txt"], json!({})).await;
    until("sleep\x003\x00", true).await;
    let path = file(&run, "a.txt").await;
    let put = world.client.ask(reqwest::Method::PUT, &path).raw("text/plain", "theirs\n").send().await;
    assert_eq!(put.status, 200);
    results(&run).await.fits(&json!([
        {"status": "succeeded"},
        {"status": "failed", "error_code": "CONFLICT", "content": "~a.txt: somebody changed it"},
        {"status": "succeeded", "content": "exit code 0\ntheirs"},
    ]));
    assert_eq!(world.client.get(&path).await.ok(), "theirs\n");
    // All or nothing.
    world.client.get(&file(&run, "b.txt").await).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_servers_death_ends_the_command_and_another_try_changes_files_once() {
    if !are_tried() {
        return;
    }
    let world = World::alone().await;
    let command = "echo line >>log.txt; sleep 4; sleep 0.0088004";
    let run = runs(&world, &["echo start >log.txt", command], json!({})).await;
    until("sleep\x004\x00", true).await;
    world.server.kill();
    until("0.0088004", false).await;
    world.server.start_again().await;
    results(&run).await.fits(&json!([{"status": "succeeded"}, {"status": "succeeded"}]));
    assert_eq!(world.client.get(&file(&run, "log.txt").await).await.ok(), "start\nline\n");
    run.list("ledger").await.fits(&json!([{"attempts": 1}, {"status": "succeeded", "attempts": 2}]));
}

#[tokio::test]
async fn what_the_server_can_not_confine_or_the_operator_does_not_want_is_refused() {
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[("ANSWERABLE_SHELL", "false")]).await;
    let world = World::on(std::sync::Arc::new(server), Some(database)).await;
    let body = agent(&world, json!({}));
    let refused = world.client.post("/v1/agents", &body).await.refused(422, "invalid_request");
    refused["errors"].fits(&json!([{"pointer": "/tools/0/kind", "message": "~switched them off"}]));
    world
        .client
        .post("/v1/runs", &json!({"agent": body, "input": "go"}))
        .await
        .refused_at("/agent/tools/0/kind");
    // A path that holds no bubblewrap.
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[("PATH", "/nowhere")]).await;
    let world = World::on(std::sync::Arc::new(server), Some(database)).await;
    let refused = world.client.post("/v1/agents", &body).await.refused(422, "invalid_request");
    refused["errors"].fits(&json!([{"pointer": "/tools/0/kind", "message": "~bubblewrap is not installed"}]));
    if are_tried() {
        let world = World::shared().await;
        let wants = |shell: Value| agent(&world, json!({"shell": shell}));
        let network = wants(json!({"network": true}));
        world.client.post("/v1/agents", &network).await.refused_at("/tools/0/shell/network");
        let memory = wants(json!({"memory_mb": 2000}));
        world.client.post("/v1/agents", &memory).await.refused_at("/tools/0/shell/memory_mb");
        world.client.post("/v1/agents", &wants(json!({"memory_mb": 1024}))).await.is(201);
    }
}

#[tokio::test]
async fn the_network_is_there_where_operator_and_agent_say_so() {
    if !are_tried() {
        return;
    }
    let database = TestDatabase::create().await.expect("a database");
    let server = Server::start_with(&database.url, &[("ANSWERABLE_SHELL_NETWORK", "true")]).await;
    let world = World::on(std::sync::Arc::new(server), Some(database)).await;
    let port = world.server.url().rsplit(':').next().expect("a port").to_owned();
    let connect = format!(
        "perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(\"127.0.0.1:{port}\") ? \"REA\" . \"CHED\" : \"NOT\"'"
    );
    for (shell, said) in [(json!({"network": true}), "REACHED"), (json!({}), "NOT")] {
        let reply = ModelReply::calls([("run_command", json!({"command": connect}))]);
        world.model.script("m", [reply, ModelReply::text("Done.")]);
        let run = world.start(&agent(&world, json!({"shell": shell}))).await;
        results(&run).await.fits(&json!([{"content": format!("exit code 0\n{said}")}]));
    }
}
