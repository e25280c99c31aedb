//! The command in a folder of its own.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::harness::{Server, World, binary};

/// Longer than any of these commands takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

pub(super) const GOOD: &str = r"
tags: [good]
input: Where is order 7?
agent: {tools: [{name: find, side_effect: none}]}
model: [{tool_calls: [{name: find, arguments: {id: 7}}]}, {final: On its way.}]
tools: {find: [{body: {state: shipped}}]}
expect: {status: finished, answer: {contains: On its way}, effects: {find: 1}, model_saw: {contains: shipped}}
";
pub(super) const BAD: &str = r"
input: Where is order 7?
agent: {}
model: [{final: I don't know.}]
expect: {status: finished, answer: {contains: On its way}}
";

/// A folder of cases, and room for what the command makes.
pub(super) struct Folder(TempDir);

impl Folder {
    pub(super) fn new(cases: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // As root PostgreSQL runs under another account, which must get in.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("permissions");
        for (name, text) in cases {
            fs::write(folder.path().join(name), text).expect("a case");
        }
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).expect(name)
    }

    pub(super) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).expect("JSON")
    }

    /// The program in this folder, with nothing of ours in its environment.
    pub(super) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        for (name, _) in std::env::vars_os() {
            let is_ours = name.as_encoded_bytes().starts_with(b"ANSWERABLE_") && name != "ANSWERABLE_PG_BIN";
            if is_ours || name == "DATABASE_URL" {
                command.env_remove(name);
            }
        }
        command.current_dir(self.path()).env("TMPDIR", self.path().join("tmp")).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

pub(super) struct Ended {
    pub(super) status: Option<i32>,
    pub(super) out: String,
    pub(super) complaint: String,
}

pub(super) async fn end(mut command: Command) -> Ended {
    let ended = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends");
    let Output { status, stdout, stderr } = ended.expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ended { status: status.code(), out: text(stdout), complaint: text(stderr) }
}

impl Ended {
    /// It ended with this status.
    #[track_caller]
    pub(super) fn is(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{}\n{}", self.out, self.complaint);
        self
    }
}

/// The same on a server of the tests, with the operator's key.
pub(super) fn on(server: &Server, mut command: Command) -> Command {
    command.env("ANSWERABLE_URL", server.url()).env("ANSWERABLE_OPERATOR_KEY", server.operator_key());
    command
}

/// A key of the world's tenant that may do everything.
pub(super) async fn key_of(world: &World) -> String {
    let path = format!("/v1/tenants/{}/keys", world.tenant);
    let key = world.server.operator().post(&path, &json!({"name": "ci", "scopes": ["admin"]})).await.is(201);
    key["secret"].as_str().expect("a secret").to_owned()
}
