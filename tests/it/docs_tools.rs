//! The examples of docs/tools.md, run as they stand there: a page that can't be followed to the letter fails here.
//!
//! A block with a title is a file, or the other terminal; one of `sh` is run; one of `json` without a title, after it, is
//! what its output must fit (`"~words"`: contains them, `"…"`: whatever is there).

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::harness::{Fits, Process, World, binary};

/// Where the page says the server is.
const SERVER: &str = "http://127.0.0.1:8080";
/// Ports of the page's own services.
const PORTS: [&str; 2] = ["9000", "3001"];
/// A program that the page fetches from npm. A test fetches nothing: `scripts/mcp-servers.sh` has it.
const FROM_NPM: &str = "npx -y @modelcontextprotocol/server-everything";
/// Longest time that a section's commands may take; programs may have to start cold on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Stands between the outputs of two blocks.
const RULE: &str = "-- end of block --";

/// A fenced block.
struct Block {
    language: String,
    title: Option<String>,
    text: String,
}

/// The blocks under each heading of the second level.
fn sections() -> BTreeMap<String, Vec<Block>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tools.md");
    let page = fs::read_to_string(page).expect("the page");
    let mut sections: BTreeMap<String, Vec<Block>> = BTreeMap::new();
    let (mut heading, mut open) = (String::new(), None::<Block>);
    for line in page.lines() {
        if let Some(block) = &mut open {
            if line == "```" {
                sections.entry(heading.clone()).or_default().extend(open.take());
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if let Some(info) = line.strip_prefix("```") {
            let (language, title) = info.split_once(" title=").unwrap_or((info, ""));
            let title = (!title.is_empty()).then(|| title.trim_matches('"').to_owned());
            open = Some(Block { language: language.to_owned(), title, text: String::new() });
        } else if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut heading);
        }
    }
    assert!(open.is_none(), "a block is not closed");
    sections
}

/// A page's section, to be followed in a folder of its own.
struct Follower<'a> {
    world: &'a World,
    folder: tempfile::TempDir,
    /// Ports of the page, and those that are free here.
    ports: Vec<(&'static str, u16)>,
}

impl Follower<'_> {
    fn localised(&self, text: &str) -> String {
        let at_home = text.replace(SERVER, self.world.server.url()).replace(FROM_NPM, &installed());
        self.ports.iter().fold(at_home, |text, (port, free)| text.replace(port, &free.to_string()))
    }

    fn bash(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("KEY", self.world.client.key().expect("a key"));
        let program = binary().parent().expect("a folder").display().to_string();
        command.env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap_or_default()));
        command
    }

    /// Starts what the page has in another terminal, and waits until it listens.
    async fn other_terminal(&self, block: &Block) -> Process {
        let mut command = self.bash(&self.localised(&format!("exec env {}", block.text.trim())));
        let log = fs::File::create(self.folder.path().join("other-terminal.log")).expect("a file");
        command.stdout(log.try_clone().expect("a handle")).stderr(log);
        let process = Process::spawn(command).expect("bash runs");
        let used = |port: &str| block.text.contains(port) || self.is_in_a_file(port);
        let port = self.ports.iter().find(|(port, _)| used(port)).expect("a port of the page").1;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said =
                || fs::read_to_string(self.folder.path().join("other-terminal.log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "nothing listens: {}", said());
            sleep(Duration::from_millis(50)).await;
        }
        process
    }

    fn is_in_a_file(&self, port: &str) -> bool {
        let free = self.ports.iter().find(|(known, _)| known == &port).map(|(_, free)| free.to_string());
        let files = fs::read_dir(self.folder.path()).expect("a folder").filter_map(Result::ok);
        files
            .filter_map(|file| fs::read_to_string(file.path()).ok())
            .any(|text| free.as_ref().is_some_and(|free| text.contains(free.as_str())))
    }

    /// What each `sh` block printed.
    async fn follow(&self, preamble: &str, blocks: &[Block]) -> Vec<String> {
        let mut script = format!("set -euo pipefail\n{preamble}\n");
        for block in blocks.iter().filter(|block| block.language == "sh" && block.title.is_none()) {
            script.push_str(&format!("{}\necho\necho '{RULE}'\n", block.text));
        }
        let mut command = tokio::process::Command::from(self.bash(&self.localised(&script)));
        let ended = timeout(PATIENCE, command.kill_on_drop(true).output()).await;
        let Output { status, stdout, stderr } = ended.expect("in time").expect("bash runs");
        let printed = String::from_utf8_lossy(&stdout).into_owned();
        assert!(status.success(), "{}\n{printed}", String::from_utf8_lossy(&stderr));
        printed.split(RULE).map(str::to_owned).collect()
    }
}

fn installed() -> String {
    let folder = std::env::var("ANSWERABLE_TEST_MCP_SERVERS").unwrap_or_default();
    format!("node {folder}/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

/// Follows a section to the letter.
async fn follow(heading: &str) {
    let world = World::shared().await;
    let mut sections = sections();
    let preamble = &sections.remove("The examples").expect("the preamble")[0].text;
    let blocks = sections.remove(heading).unwrap_or_else(|| panic!("no section {heading:?}"));
    // Held all at once, so that they are different.
    let listeners = PORTS.map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let free = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    let ports = PORTS.into_iter().zip(listeners.iter().map(free)).collect();
    drop(listeners);
    let follower = Follower { world: &world, folder: tempfile::tempdir().expect("a folder"), ports };
    let mut terminals = Vec::new();
    for block in &blocks {
        match block.title.as_deref() {
            Some("another terminal") => terminals.push(follower.other_terminal(block).await),
            Some(file) => {
                let path = follower.folder.path().join(file);
                fs::write(path, follower.localised(&block.text)).expect("a file");
            }
            None => {}
        }
    }
    let printed = follower.follow(preamble, &blocks).await;
    let (mut n, mut compared) = (0, 0);
    for block in blocks.iter().filter(|block| block.title.is_none()) {
        match block.language.as_str() {
            "sh" => n += 1,
            "json" => {
                let found = last_json(&printed[n - 1]);
                found.fits(&pattern(&block.text.replace("\"…\"", "\"*\"")));
                compared += 1;
            }
            _ => {}
        }
    }
    assert!(compared > 0, "the section {heading:?} shows no outcome");
}

fn pattern(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// The last line of an output that is JSON.
fn last_json(printed: &str) -> Value {
    let lines = printed.lines().rev();
    let mut values = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    values.find(Value::is_object).unwrap_or_else(|| panic!("no JSON in:\n{printed}"))
}

#[tokio::test]
async fn http() {
    follow("HTTP tools").await;
}

#[tokio::test]
async fn client() {
    follow("Client tools").await;
}

#[tokio::test]
async fn openapi() {
    follow("Tools from an OpenAPI document").await;
}

#[tokio::test]
async fn mcp() {
    follow("MCP servers").await;
}

#[tokio::test]
async fn workspace() {
    follow("Workspace tools").await;
}

#[tokio::test]
async fn shell() {
    if !crate::commands::are_tried() {
        return;
    }
    follow("Shell").await;
}

#[tokio::test]
async fn agent() {
    follow("Agents as tools").await;
}
