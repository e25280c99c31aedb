//! Servers that others wrote, over HTTP and over pipes. `scripts/prepare.sh` installs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{Came, McpPlace, ToolExecutor, ToolSource};
use answerable_tools::{McpLimits, StdioCommand};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::world::{World, names, output, tenant};

const EVERYTHING: &str = "@modelcontextprotocol/server-everything/dist/index.js";
const FILESYSTEM: &str = "@modelcontextprotocol/server-filesystem/dist/index.js";

/// Where the servers are installed.
fn installed(script: &str) -> String {
    let cache = || match std::env::var_os("XDG_CACHE_HOME") {
        _ if nix::unistd::Uid::current().is_root() => PathBuf::from("/var/cache"),
        Some(cache) => cache.into(),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    };
    let folder = std::env::var_os("ANSWERABLE_TEST_MCP_SERVERS");
    let folder = folder.map_or_else(|| cache().join("answerable/mcp-servers"), PathBuf::from);
    let path = folder.join("node_modules").join(script);
    assert!(path.is_file(), "{} is not there: `scripts/mcp-servers.sh` installs it", path.display());
    path.to_string_lossy().into_owned()
}

fn node(args: &[&str], env: &[(&str, &str)]) -> StdioCommand {
    StdioCommand {
        command: "node".into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
        cwd: None,
    }
}

/// The server of everything over streamable HTTP.
struct Everything {
    process: Child,
    port: u16,
}

impl Everything {
    async fn start(port: Option<u16>) -> Self {
        let free = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let port = port.unwrap_or_else(free);
        let mut process = Command::new("node")
            .args([&installed(EVERYTHING), "streamableHttp"])
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node is there");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let listens = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("listening") {
                    return true;
                }
            }
            false
        };
        assert!(tokio::time::timeout(Duration::from_secs(30), listens).await.expect("it starts"), "it ended");
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { process, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    async fn kill(&mut self) {
        self.process.kill().await.expect("killed");
    }
}

struct Desk {
    world: World,
    server: &'static str,
}

impl Desk {
    async fn run(&self, tool: &str, input: Value) -> Came {
        self.world.run(&self.world.prepared(1, self.server, tool, input)).await
    }

    async fn said(&self, tool: &str, input: Value) -> String {
        output(self.run(tool, input).await.attempt).content
    }
}

/// What the server of everything does, whatever carries it.
async fn shows_everything(desk: &Desk) {
    let tools = desk.world.tools.list(tenant(1), desk.server).await.expect("a list");
    let known = names(&tools);
    for name in
        ["echo", "get-sum", "get-tiny-image", "get-structured-content", "trigger-long-running-operation"]
    {
        assert!(known.contains(&name), "{name} is not in {known:?}");
    }
    assert!(tools.iter().all(|tool| tool.input_schema["type"] == "object" && !tool.description.is_empty()));
    assert!(desk.said("echo", json!({"message": "größer 🦊"})).await.contains("größer 🦊"));
    assert!(desk.said("get-sum", json!({"a": 2, "b": 40})).await.contains("42"));
    let image = desk.run("get-tiny-image", json!({})).await;
    let kept: Vec<_> = image.artifacts.iter().map(|kept| kept.media_type.as_str()).collect();
    assert_eq!(kept, ["image/png"]);
    assert!(image.artifacts[0].content.starts_with(b"\x89PNG"));
    assert!(output(image.attempt).content.contains("kept as artifact"));
    let weather = desk.said("get-structured-content", json!({"location": "Chicago"})).await;
    assert!(weather.contains("temperature"), "{weather}");
    assert!(desk.said("get-resource-links", json!({"count": 2})).await.contains("[resource: "));
    let annotated =
        desk.run("get-annotated-message", json!({"messageType": "error", "includeImage": true})).await;
    assert_eq!(annotated.artifacts.len(), 1, "{annotated:?}");
    let long = desk.said("trigger-long-running-operation", json!({"duration": 1, "steps": 3})).await;
    assert!(long.contains("completed"), "{long}");
    let wrong = desk.run("get-sum", json!({"a": "two"})).await.attempt;
    assert!(matches!(&wrong, Attempt::Refused(_, why) if !why.is_empty()), "{wrong:?}");
    let none = desk.run("no-such-tool", json!({})).await.attempt;
    assert!(matches!(&none, Attempt::Refused(_, why) if why.contains("no-such-tool")), "{none:?}");
}

/// A long call is dropped, and the next one is none the worse for it.
async fn a_long_call_is_dropped(desk: &Desk) {
    let call = desk.world.prepared(
        1,
        desk.server,
        "trigger-long-running-operation",
        json!({"duration": 30, "steps": 30}),
    );
    let dropped = tokio::time::timeout(Duration::from_millis(500), desk.world.tools.run(&call)).await;
    assert!(dropped.is_err(), "it takes longer");
    assert!(desk.said("echo", json!({"message": "still here"})).await.contains("still here"));
}

#[tokio::test]
async fn everything_over_http() {
    let mut far = Everything::start(None).await;
    let desk = Desk { world: World::start().await, server: "everything" };
    desk.world.set(1, "everything", &far.url());
    desk.world.set(2, "everything", &far.url());
    shows_everything(&desk).await;
    a_long_call_is_dropped(&desk).await;
    let other =
        desk.world.run(&desk.world.prepared(2, "everything", "echo", json!({"message": "two"}))).await;
    assert!(output(other.attempt).content.contains("two"));
    // It dies within a call …
    let (tools, long) = (
        desk.world.tools.clone(),
        desk.world.prepared(
            1,
            "everything",
            "trigger-long-running-operation",
            json!({"duration": 4, "steps": 4}),
        ),
    );
    let task = tokio::spawn(async move { tools.run(&long).await.attempt });
    tokio::time::sleep(Duration::from_millis(700)).await;
    far.kill().await;
    let attempt = task.await.expect("no panic");
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Unavailable, _)), "{attempt:?}");
    let attempt = desk.run("echo", json!({"message": "x"})).await.attempt;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    // … and knows no session when it is there again.
    let before = desk.world.tools.changes(tenant(1), "everything");
    let _again = Everything::start(Some(far.port)).await;
    assert!(desk.said("echo", json!({"message": "again"})).await.contains("again"));
    assert!(desk.world.tools.changes(tenant(1), "everything") > before);
}

#[tokio::test]
async fn everything_over_pipes() {
    let command = node(&[&installed(EVERYTHING), "stdio"], &[("GREETING", "hello-there")]);
    let world = World::with(BTreeMap::from([("node".into(), command)]), McpLimits::default()).await;
    world.put(1, "everything", McpPlace::Stdio { command: "node".into() }, 30_000, "1");
    let desk = Desk { world, server: "everything" };
    shows_everything(&desk).await;
    a_long_call_is_dropped(&desk).await;
    let env = desk.said("get-env", json!({})).await;
    let env: BTreeMap<String, String> = serde_json::from_str(&env).expect("JSON");
    let names: Vec<&str> = env.keys().map(String::as_str).collect();
    assert_eq!(names, ["GREETING", "PATH"]);
}

#[tokio::test]
async fn files_over_pipes() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let path = |name: &str| root.join(name).to_string_lossy().into_owned();
    let command = node(&[&installed(FILESYSTEM), &root.to_string_lossy()], &[]);
    let world = World::with(BTreeMap::from([("node".into(), command)]), McpLimits::default()).await;
    world.put(1, "files", McpPlace::Stdio { command: "node".into() }, 30_000, "1");
    let desk = Desk { world, server: "files" };
    let tools = desk.world.tools.list(tenant(1), "files").await.expect("a list");
    let reads = tools.iter().find(|tool| tool.name == "read_text_file").expect("it reads");
    assert_eq!(reads.annotations.as_ref().map(|told| &told["readOnlyHint"]), Some(&json!(true)));
    desk.said("write_file", json!({"path": path("a.txt"), "content": "three\nlines\nhere\n"})).await;
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).expect("it is written"), "three\nlines\nhere\n");
    assert_eq!(desk.said("read_text_file", json!({"path": path("a.txt"), "head": 2})).await, "three\nlines");
    assert!(desk.said("list_directory", json!({"path": path("")})).await.contains("a.txt"));
    let outside = desk.run("read_text_file", json!({"path": "/etc/passwd"})).await.attempt;
    assert!(
        matches!(&outside, Attempt::Refused(ErrorCode::Internal, why) if why.contains("denied")),
        "{outside:?}"
    );
    let missing = desk.run("read_text_file", json!({"path": path("b.txt")})).await.attempt;
    assert!(
        matches!(&missing, Attempt::Refused(ErrorCode::Internal, why) if why.contains("ENOENT")),
        "{missing:?}"
    );
    picture(&desk, &root).await;
}

async fn picture(desk: &Desk, root: &Path) {
    std::fs::write(root.join("p.png"), b"\x89PNG not much of one").expect("written");
    let came = desk.run("read_media_file", json!({"path": root.join("p.png").to_string_lossy()})).await;
    assert_eq!((came.artifacts.len(), came.artifacts[0].media_type.as_str()), (1, "image/png"));
    assert_eq!(&came.artifacts[0].content[..], b"\x89PNG not much of one");
}
