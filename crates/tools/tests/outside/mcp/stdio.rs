//! Servers behind pipes: their environment, their death, and their end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{McpFault, McpPlace, ToolExecutor, ToolSource};
use answerable_tools::{McpLimits, StdioCommand};
use serde_json::{Value, json};

use super::world::{World, idle, names, output, tenant};

/// A server in shell: each tool does one thing.
const SERVER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { say '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
while IFS= read -r line; do
    printf '%s\n' "$line" >>"$LOG"
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case $line in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}' ;;
    *'"method":"tools/list"'*) say '{"tools":[{"name":"env"},{"name":"pid"}]}' ;;
    *'"method":"notifications/'*) ;;
    *'"name":"env"'*) text "$(env | sort | tr '\n' ' ')" ;;
    *'"name":"pwd"'*) text "$(pwd)" ;;
    *'"name":"pid"'*) text "$$" ;;
    *'"name":"child"'*) sleep 1000 & text "$!" ;;
    *'"name":"die"'*) exit 3 ;;
    *'"name":"last"'*) text "last words"; exit 0 ;;
    *'"name":"deaf"'*) exec sleep 1000 ;;
    *'"name":"mute"'*) ;;
    *'"name":"closes"'*) exec </dev/null; text "closed"; exec sleep 1000 ;;
    *'"name":"odd"'*) printf '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}\n' ;;
    *'"name":"noise"'*) echo "no message"; head -c 3000000 /dev/zero | tr '\0' x >&2; text "heard" ;;
    *'"name":"ping"'*) printf '{"jsonrpc":"2.0","id":"p","method":"ping"}\n{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'; text "asked" ;;
    *'"name":"flood"'*) head -c 17000000 /dev/zero | tr '\0' x; exec sleep 1000 ;;
    esac
done
"#;

struct Desk {
    world: World,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Desk {
    async fn start(limits: McpLimits) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let env = BTreeMap::from([
            ("LOG".to_owned(), log.to_string_lossy().into_owned().into()),
            ("API_TOKEN".to_owned(), "canary-4711-token".to_owned().into()),
            ("GREETING".to_owned(), "hello-there".to_owned().into()),
        ]);
        let shell = |args: &[&str], cwd: Option<&Path>| StdioCommand {
            command: "sh".into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: env.clone(),
            cwd: cwd.map(Path::to_owned),
        };
        let commands = BTreeMap::from([
            ("shell".to_owned(), shell(&["-c", SERVER], None)),
            ("elsewhere".to_owned(), shell(&["-c", SERVER], Some(folder.path()))),
            ("lost".to_owned(), StdioCommand { command: "/nowhere/at-all".into(), ..shell(&[], None) }),
        ]);
        let world = World::with(commands, limits).await;
        for (number, name) in [(1, "shell"), (2, "shell"), (1, "elsewhere"), (1, "lost"), (1, "unnamed")] {
            world.put(number, name, McpPlace::Stdio { command: name.into() }, 5000, "1");
        }
        Self { world, log, _folder: folder }
    }

    async fn call(&self, number: u128, tool: &str, input: Value) -> Attempt {
        self.world.run(&self.world.prepared(number, "shell", tool, input)).await.attempt
    }

    async fn said(&self, number: u128, tool: &str) -> String {
        output(self.call(number, tool, json!({})).await).content
    }

    async fn logged(&self, what: &str) {
        eventually(|| std::fs::read_to_string(&self.log).unwrap_or_default().contains(what)).await;
    }
}

async fn eventually(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), wait).await.expect("it comes true");
}

/// Whether a process lives; one that is dead and only not waited for does not.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[tokio::test]
async fn a_command_has_its_own_environment_and_nothing_else() {
    let desk = Desk::start(McpLimits::default()).await;
    let tools = desk.world.tools.list(tenant(1), "shell").await.expect("a list");
    assert_eq!(names(&tools), ["env", "pid"]);
    let env = desk.said(1, "env").await;
    let known = ["API_TOKEN", "GREETING", "LOG", "PATH", "PWD", "OLDPWD", "SHLVL", "_"];
    let strange: Vec<_> = env
        .split_whitespace()
        .filter(|pair| !known.contains(&pair.split('=').next().unwrap_or_default()))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(
        env.contains("GREETING=hello-there") && env.contains("API_TOKEN=***") && !env.contains("canary"),
        "{env}"
    );
    assert_eq!(desk.said(1, "pwd").await, "/");
    let elsewhere = desk.world.run(&desk.world.prepared(1, "elsewhere", "pwd", json!({}))).await;
    assert_ne!(output(elsewhere.attempt).content, "/");
}

#[tokio::test]
async fn runs_of_a_tenant_share_a_process_and_tenants_do_not() {
    let desk = Desk::start(McpLimits::default()).await;
    let (first, again, other) =
        (desk.said(1, "pid").await, desk.said(1, "pid").await, desk.said(2, "pid").await);
    assert!(first == again && first != other, "{first} {again} {other}");
}

#[tokio::test]
async fn a_process_that_dies_within_a_call_leaves_it_unclear_and_is_started_again() {
    let desk = Desk::start(McpLimits::default()).await;
    let (first, before) = (desk.said(1, "pid").await, desk.world.tools.changes(tenant(1), "shell"));
    let attempt = desk.call(1, "die", json!({})).await;
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Unavailable, _)), "{attempt:?}");
    assert_ne!(desk.said(1, "pid").await, first);
    assert!(desk.world.tools.changes(tenant(1), "shell") > before);
    // Between two calls it is noticed before anything is sent.
    let pid = desk.said(1, "pid").await;
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid.parse().expect("a pid")),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("killed");
    eventually(|| !lives(&pid)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_ne!(desk.said(1, "pid").await, pid);
    // What it says last is heard.
    assert_eq!(desk.said(1, "last").await, "last words");
}

#[tokio::test]
async fn what_was_not_written_is_known_to_be_without_effect() {
    let desk = Desk::start(McpLimits::default()).await;
    desk.said(1, "pid").await;
    let call = |tool: &str, size: usize, ms: u64| {
        let mut call = desk.world.prepared(1, "shell", tool, json!({"x": "y".repeat(size)}));
        call.tool.timeout_ms = Some(ms);
        let tools = desk.world.tools.clone();
        tokio::spawn(async move { tools.run(&call).await.attempt })
    };
    let deaf = call("deaf", 0, 1500);
    desk.logged("\"deaf\"").await;
    let begun = call("pay", 1 << 20, 1000);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let waits = call("pay", 0, 400).await.expect("no panic");
    assert!(matches!(waits, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{waits:?}");
    for left in [deaf, begun] {
        let left = left.await.expect("no panic");
        assert!(matches!(left, Attempt::Unclear(ErrorCode::Timeout, _)), "{left:?}");
    }
}

#[tokio::test]
async fn a_call_that_nobody_awaits_is_called_off() {
    let desk = Desk::start(McpLimits::default()).await;
    let (tools, call) = (desk.world.tools.clone(), desk.world.prepared(1, "shell", "mute", json!({})));
    let task = tokio::spawn(async move { tools.run(&call).await });
    desk.logged("\"mute\"").await;
    task.abort();
    desk.logged("notifications/cancelled").await;
    let log = std::fs::read_to_string(&desk.log).expect("a log");
    assert!(log.lines().last().is_some_and(|line| line.contains("\"requestId\":2")), "{log}");
    assert!(!desk.said(1, "pid").await.is_empty(), "the process lives on");
}

#[tokio::test]
async fn noise_is_no_harm() {
    let desk = Desk::start(McpLimits::default()).await;
    assert_eq!(desk.said(1, "noise").await, "heard");
    let before = desk.world.tools.changes(tenant(1), "shell");
    assert_eq!(desk.said(1, "ping").await, "asked");
    desk.logged(r#""result":{}"#).await;
    assert_eq!(desk.world.tools.changes(tenant(1), "shell"), before + 1);
    let attempt = desk.call(1, "flood", json!({})).await;
    assert!(matches!(attempt, Attempt::Unclear(..)), "{attempt:?}");
    assert!(!desk.said(1, "pid").await.is_empty(), "another process is there");
}

#[tokio::test]
async fn an_idle_process_ends_with_all_that_it_started() {
    let desk = Desk::start(idle(200)).await;
    let (pid, child) = (desk.said(1, "pid").await, desk.said(1, "child").await);
    assert!(lives(&child));
    eventually(|| !lives(&pid) && !lives(&child)).await;
}

#[tokio::test]
async fn a_process_ends_when_nobody_can_use_it_any_more() {
    let desk = Desk::start(McpLimits::default()).await;
    let child = desk.said(1, "child").await;
    drop(desk);
    eventually(|| !lives(&child)).await;
}

#[tokio::test]
async fn only_what_the_operator_names_is_started() {
    let desk = Desk::start(McpLimits::default()).await;
    let attempt = desk.world.run(&desk.world.prepared(1, "unnamed", "pid", json!({}))).await.attempt;
    assert!(matches!(attempt, Attempt::Refused(ErrorCode::PermissionDenied, _)), "{attempt:?}");
    let attempt = desk.world.run(&desk.world.prepared(1, "lost", "pid", json!({}))).await.attempt;
    assert!(
        matches!(&attempt, Attempt::NotDone(ErrorCode::Unavailable, why, _) if !why.contains("nowhere")),
        "{attempt:?}"
    );
    let fault = desk.world.tools.list(tenant(1), "lost").await;
    assert!(matches!(&fault, Err(McpFault::Away(why)) if !why.contains("nowhere")), "{fault:?}");
}

#[tokio::test]
async fn there_are_only_so_many_processes() {
    let desk = Desk::start(McpLimits { processes: 1, ..McpLimits::default() }).await;
    let first = desk.said(1, "pid").await;
    // The idle one makes room, and is gone before the other begins.
    assert_ne!(desk.said(2, "pid").await, first);
    assert!(!lives(&first));
    let mut call = desk.world.prepared(2, "shell", "mute", json!({}));
    call.tool.timeout_ms = Some(1500);
    let tools = desk.world.tools.clone();
    let busy = tokio::spawn(async move { tools.run(&call).await.attempt });
    desk.logged("\"mute\"").await;
    let mut call = desk.world.prepared(1, "shell", "pid", json!({}));
    call.tool.timeout_ms = Some(300);
    let attempt = desk.world.run(&call).await.attempt;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    assert!(matches!(busy.await.expect("no panic"), Attempt::Unclear(ErrorCode::Timeout, _)));
}

#[tokio::test]
async fn a_process_that_closes_its_input_is_replaced() {
    let desk = Desk::start(McpLimits::default()).await;
    let first = desk.said(1, "pid").await;
    assert_eq!(desk.said(1, "closes").await, "closed");
    eventually(|| std::fs::read_to_string(format!("/proc/{first}/comm")).is_ok_and(|name| name == "sleep\n"))
        .await;
    let begun = std::time::Instant::now();
    let attempt = desk.call(1, "pid", json!({})).await;
    assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Unavailable, _)), "{attempt:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "before the call's own time is over");
    assert_ne!(desk.said(1, "pid").await, first);
    eventually(|| !lives(&first)).await;
}

#[tokio::test]
async fn a_process_that_answers_nothing_is_replaced() {
    let desk = Desk::start(McpLimits::default()).await;
    let first = desk.said(1, "pid").await;
    let late = async || {
        let mut call = desk.world.prepared(1, "shell", "mute", json!({}));
        call.tool.timeout_ms = Some(150);
        let attempt = desk.world.run(&call).await.attempt;
        assert!(matches!(attempt, Attempt::Unclear(ErrorCode::Timeout, _)), "{attempt:?}");
    };
    for _ in 0..2 {
        late().await;
        late().await;
        assert_eq!(desk.said(1, "pid").await, first, "an answer begins the count anew");
    }
    let changes = desk.world.tools.changes(tenant(1), "shell");
    for _ in 0..3 {
        late().await;
    }
    assert_ne!(desk.said(1, "pid").await, first);
    assert!(desk.world.tools.changes(tenant(1), "shell") > changes);
    eventually(|| !lives(&first)).await;
}

#[tokio::test]
async fn an_error_for_nobody_is_for_the_only_one_that_waits() {
    let desk = Desk::start(McpLimits::default()).await;
    let attempt = desk.call(1, "odd", json!({})).await;
    assert!(matches!(&attempt, Attempt::Refused(ErrorCode::Internal, why) if why == "what?"), "{attempt:?}");
}

#[tokio::test]
async fn a_tenant_has_its_part_of_the_processes() {
    let desk = Desk::start(McpLimits { tenant_processes: 1, ..McpLimits::default() }).await;
    let mut call = desk.world.prepared(1, "shell", "mute", json!({}));
    call.tool.timeout_ms = Some(1500);
    let tools = desk.world.tools.clone();
    let busy = tokio::spawn(async move { tools.run(&call).await.attempt });
    desk.logged("\"mute\"").await;
    let mut call = desk.world.prepared(1, "elsewhere", "pid", json!({}));
    call.tool.timeout_ms = Some(300);
    let attempt = desk.world.run(&call).await.attempt;
    assert!(matches!(attempt, Attempt::NotDone(ErrorCode::Unavailable, _, None)), "{attempt:?}");
    assert!(!desk.said(2, "pid").await.is_empty(), "another tenant has places");
    assert!(matches!(busy.await.expect("no panic"), Attempt::Unclear(ErrorCode::Timeout, _)));
}
