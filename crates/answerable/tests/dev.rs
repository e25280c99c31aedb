//! `answerable dev` as a newcomer meets it: a greeting that comes when the server works, lines that work as pasted, an
//! end that leaves nothing behind, and a second start on the same folder.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn dev(folder: &Path, address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_answerable"));
    command.args(["dev", "--listen", address]).current_dir(folder);
    command.env_remove("DATABASE_URL").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// An address that was free a moment ago.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// Starts it and reads its greeting; hands back the lines to try.
fn start(folder: &Path, address: &str) -> (Child, Vec<String>) {
    let mut child = dev(folder, address).stderr(Stdio::inherit()).spawn().expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = Vec::new();
    for line in out.lines().map(|line| line.expect("text")) {
        if line.starts_with("Ctrl-C") {
            return (child, lines);
        }
        if line.contains("curl ") {
            lines.push(line);
        }
    }
    panic!("it ended before it greeted: {:?}", child.wait());
}

fn stop(mut child: Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn the_lines_work_as_pasted_and_a_second_start_greets_too() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let address = free_address();
    for round in ["fresh", "again"] {
        let (child, lines) = start(folder.path(), &address);
        assert_eq!(lines.len(), 3, "{lines:?}");
        let shell = Command::new("sh").args(["-c", &lines.join("\n")]).output().expect("sh runs");
        let said = String::from_utf8_lossy(&shell.stdout).into_owned();
        stop(child);
        assert!(
            said.contains("Hello from Answerable.") && said.contains("event: run.finished"),
            "{round}: {said}"
        );
        let left = folder.path().join(".answerable/postgres/cluster/postmaster.pid");
        assert!(!left.exists(), "{round}: PostgreSQL still runs");
    }
}

#[test]
fn a_port_in_use_is_told_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let output = dev(folder.path(), &address).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains(&format!("can't listen at {address}")), "{error}");
    assert!(!folder.path().join(".answerable/postgres").exists());
}
