//! Following a section of a page, in a folder of its own, against a tenant of its own.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::page::{Block, Section, section};
use crate::harness::{Fits, Process, World, binary};

/// Where the pages say that the server is.
const SERVER: &str = "http://127.0.0.1:8080";
/// A program that a page fetches from npm. A test fetches nothing: `scripts/mcp-servers.sh` has it.
const FROM_NPM: &str = "npx -y @modelcontextprotocol/server-everything";
/// Longest time that a section's commands may take; programs may have to start cold on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Sets of ports that are tried.
const TRIES: usize = 3;
/// Stands between the outputs of two blocks.
const RULE: &str = "-- end of block --";

/// A section that is followed.
struct Follower<'a> {
    world: &'a World,
    folder: tempfile::TempDir,
    /// Ports of the page, and those that are free here.
    ports: Vec<(&'static str, u16)>,
}

impl Follower<'_> {
    fn localised(&self, text: &str) -> String {
        localised(text, &self.ports, self.world.server.url(), &installed())
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
    async fn other_terminal(&self, number: usize, block: &Block) -> Result<Process, Ended> {
        let port = self.port_of(block);
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Err(Ended(format!("somebody else has port {port} by now")));
        }
        let mut command = self.bash(&self.localised(&format!("exec env {}", block.text.trim())));
        let log = self.folder.path().join(format!("terminal-{number}.log"));
        let file = fs::File::create(&log).expect("a file");
        command.stdout(file.try_clone().expect("a handle")).stderr(file);
        let mut process = Process::spawn(command).expect("bash runs");
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = process.ended() {
                return Err(Ended(format!("{status}: {}", said())));
            }
            assert!(Instant::now() < deadline, "nothing listens: {}", said());
            sleep(Duration::from_millis(50)).await;
        }
        Ok(process)
    }

    /// Writes the files, and starts what is in other terminals.
    async fn set_up(&self, section: &Section) -> Result<Vec<Process>, Ended> {
        let mut terminals = Vec::new();
        for block in section.preamble.iter().chain(&section.blocks) {
            match block.title.as_deref() {
                Some("another terminal") => {
                    terminals.push(self.other_terminal(terminals.len(), block).await?);
                }
                Some(file) => {
                    fs::write(self.folder.path().join(file), self.localised(&block.text)).expect("a file");
                }
                None => {}
            }
        }
        Ok(terminals)
    }

    /// The port that a terminal's program listens on: its command names it, or a file that the command names.
    fn port_of(&self, block: &Block) -> u16 {
        let named = fs::read_dir(self.folder.path())
            .expect("a folder")
            .filter_map(Result::ok)
            .filter(|file| file.file_name().to_str().is_some_and(|name| block.text.contains(name)));
        let texts: Vec<String> = named.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
        let is_its_own = |(port, free): &&(&str, u16)| {
            block.text.contains(port) || texts.iter().any(|text| text.contains(&free.to_string()))
        };
        self.ports.iter().find(is_its_own).expect("a port of the page").1
    }

    /// What each of the scripts printed that come after the page's preamble.
    async fn run(&self, preamble: &[Block], scripts: &[&str]) -> Vec<String> {
        let mut script = "set -euo pipefail\n".to_owned();
        for block in preamble.iter().filter(|block| block.is_run()) {
            script.push_str(&block.text);
        }
        for text in scripts {
            script.push_str(&format!("{text}\necho\necho '{RULE}'\n"));
        }
        let mut command = tokio::process::Command::from(self.bash(&self.localised(&script)));
        let ended = timeout(PATIENCE, command.kill_on_drop(true).output()).await;
        let Output { status, stdout, stderr } = ended.expect("in time").expect("bash runs");
        let printed = String::from_utf8_lossy(&stdout).into_owned();
        assert!(status.success(), "{}\n{printed}\n{}", String::from_utf8_lossy(&stderr), self.terminals());
        printed.split(RULE).map(str::to_owned).collect()
    }

    /// What the other terminals show.
    fn terminals(&self) -> String {
        let logs = fs::read_dir(self.folder.path()).expect("a folder").filter_map(Result::ok);
        let logs = logs.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
        logs.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
    }
}

fn installed() -> String {
    let folder = std::env::var("ANSWERABLE_TEST_MCP_SERVERS").unwrap_or_default();
    format!("node {folder}/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

/// A program of the page that ended before it listened, and what it said.
struct Ended(String);

/// A page's text with the ports, the server and the programs that are here. The ports are put in all at once, and before the
/// server's address, which may have any.
fn localised(text: &str, ports: &[(&str, u16)], server: &str, from_npm: &str) -> String {
    let mark = |n: usize| format!("\0{n}\0");
    let marked =
        ports.iter().enumerate().fold(text.to_owned(), |text, (n, (port, _))| text.replace(port, &mark(n)));
    let filled = ports
        .iter()
        .enumerate()
        .fold(marked, |text, (n, (_, free))| text.replace(&mark(n), &free.to_string()));
    filled.replace(SERVER, server).replace(FROM_NPM, from_npm)
}

/// Follows a section of a page to the letter. `ports` are those of the page's own services.
pub(super) async fn follow<const N: usize>(page: &str, heading: &str, ports: [&'static str; N]) {
    let world = World::shared().await;
    let section = section(page, heading);
    let (follower, _terminals) = set_up(&world, &section, ports).await;
    let blocks = section.blocks.iter().filter(|block| block.is_run());
    let scripts: Vec<&str> = blocks.map(|block| block.text.as_str()).collect();
    let printed = follower.run(&section.preamble, &scripts).await;
    compare(heading, &section.blocks, &printed);
}

/// Sets up what a section has, and then runs this instead of what the section does. Gives what it printed last, as JSON.
pub(super) async fn beyond<const N: usize>(
    page: &str,
    heading: &str,
    ports: [&'static str; N],
    script: &str,
) -> Value {
    let world = World::shared().await;
    let section = section(page, heading);
    let (follower, _terminals) = set_up(&world, &section, ports).await;
    last_json(&follower.run(&section.preamble, &[script]).await[0])
}

/// The section's files and what runs in its other terminals. A port that was free may be somebody else's a moment later: then
/// there are others.
async fn set_up<'a, const N: usize>(
    world: &'a World,
    section: &Section,
    ports: [&'static str; N],
) -> (Follower<'a>, Vec<Process>) {
    let mut said = Vec::new();
    for _ in 0..TRIES {
        let folder = tempfile::tempdir().expect("a folder");
        let follower = Follower { world, folder, ports: free_ports(ports) };
        match follower.set_up(section).await {
            Ok(terminals) => return (follower, terminals),
            Err(Ended(why)) => said.push(why),
        }
    }
    panic!("a program of the page does not stay: {said:#?}");
}

/// Each port of the page, and one that is free here.
fn free_ports<const N: usize>(ports: [&'static str; N]) -> Vec<(&'static str, u16)> {
    // Held all at once, so that they are different.
    let listeners = ports.map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let free = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    ports.into_iter().zip(listeners.iter().map(free)).collect()
}

/// What was printed is what the page shows.
fn compare(heading: &str, blocks: &[Block], printed: &[String]) {
    let (mut n, mut compared) = (0, 0);
    for block in blocks.iter().filter(|block| block.title.is_none()) {
        match block.language.as_str() {
            "sh" => n += 1,
            "json" => {
                assert!(n > 0, "an outcome of nothing: {}", block.text);
                last_json(&printed[n - 1]).fits(&pattern(&block.text.replace("\"…\"", "\"*\"")));
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

#[test]
fn ports_are_put_in_whatever_the_others_are() {
    let text = "listen(9000); fetch('http://127.0.0.1:8080/v1'); connect(3001)";
    let ports = [("9000", 53_001), ("3001", 49_000)];
    let here = localised(text, &ports, "http://127.0.0.1:39000", "node it");
    assert_eq!(here, "listen(53001); fetch('http://127.0.0.1:39000/v1'); connect(49000)");
}
