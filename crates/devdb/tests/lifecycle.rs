//! A real PostgreSQL, started, asked, stopped and killed.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use answerable_devdb::{Error, Options, PrivatePostgres};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Set for the copy of this test program that plays the owner to be killed.
const OWNER_DATA: &str = "DEVDB_TEST_OWNER_DATA";

fn options(dir: &Path) -> Options {
    Options { data_dir: dir.to_owned(), bin_dir: None, fsync: false, max_connections: 10 }
}

fn folder() -> TempDir {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in("/tmp")
        .expect("temporary folder")
}

fn start(dir: &Path) -> PrivatePostgres {
    PrivatePostgres::start(options(dir)).expect("started")
}

/// Asks over the URL, as any client would, with the `psql` that belongs to a running server.
fn ask(url: &str, sql: &str) -> Result<String, String> {
    static PSQL: OnceLock<PathBuf> = OnceLock::new();
    let psql = PSQL.get_or_init(|| {
        let dir = folder();
        let server = start(dir.path());
        let postgres = Path::new(&format!("/proc/{}/exe", server.pid())).read_link().expect("program");
        postgres.with_file_name("psql")
    });
    let output = Command::new(psql).args([url, "-XAtqc", sql]).output().expect("psql runs");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/cwd")).read_link().is_ok()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn data_lasts_between_starts() {
    let dir = folder();
    let server = start(dir.path());
    assert!(server.is_running());
    server.create_database("it's \"odd\"").expect("made");
    server.create_database("it's \"odd\"").expect("there already");
    let url = server.url("it's \"odd\"");
    ask(&url, "CREATE TABLE t AS SELECT 'kept' AS word").expect("table made");
    assert_eq!(ask(&url, "SHOW listen_addresses").as_deref(), Ok(""));
    assert_eq!(ask(&url, "SHOW server_encoding").as_deref(), Ok("UTF8"));
    server.stop().expect("stopped");
    ask(&url, "SELECT 1").expect_err("stopped servers don't answer");

    let server = start(dir.path());
    assert_eq!(ask(&server.url("it's \"odd\""), "SELECT word FROM t").as_deref(), Ok("kept"));
    let pid = server.pid().cast_signed();
    drop(server);
    assert!(!is_alive(pid), "dropping stops it");
}

#[test]
fn fsync_is_as_asked() {
    let dir = folder();
    for fsync in [true, false] {
        let server = PrivatePostgres::start(Options { fsync, ..options(dir.path()) }).expect("started");
        let expected = if fsync { "on" } else { "off" };
        assert_eq!(ask(&server.url("postgres"), "SHOW fsync").as_deref(), Ok(expected));
    }
}

#[test]
fn a_long_path_works() {
    let dir = folder();
    if nix::unistd::geteuid().is_root() {
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("mode");
    }
    let server = start(&dir.path().join("long".repeat(30)));
    assert_eq!(ask(&server.url("postgres"), "SELECT 1").as_deref(), Ok("1"));
}

/// As root PostgreSQL runs under another account; the data must still be found again, and be gone for good
/// when the link to it is.
#[test]
fn as_root_a_folder_that_only_root_enters_becomes_a_link() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let closed = folder();
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).expect("mode");
    let wanted = closed.path().join("postgres");
    let mut made = Vec::new();
    for remains in [true, true, false] {
        let server = start(&wanted);
        assert!(wanted.is_symlink() && server.data_dir() == wanted.canonicalize().expect("link"));
        made.push(server.data_dir().parent().expect("parent").to_owned());
        if !remains {
            std::fs::remove_file(&wanted).expect("removed");
        }
    }
    assert!(made.iter().all(|place| *place == made[0]), "{made:?}");
    let server = start(&wanted);
    made.push(server.data_dir().parent().expect("parent").to_owned());
    assert_ne!(made[0], made[3]);
    drop(server);
    for place in [&made[0], &made[3]] {
        std::fs::remove_dir_all(place).expect("removed");
    }
}

#[test]
fn names_that_are_none_are_refused() {
    let dir = folder();
    let server = start(dir.path());
    for name in ["", "a\0b", &"x".repeat(64)] {
        assert!(matches!(server.create_database(name), Err(Error::DatabaseName(_))), "{name:?}");
    }
}

#[test]
fn what_a_dead_server_left_is_no_obstacle() {
    let dir = folder();
    let server = start(dir.path());
    let pid = Pid::from_raw(server.pid().cast_signed());
    kill(pid, Signal::SIGKILL).expect("killed");
    wait_for("the end of the server", || !server.is_running());
    drop(server);
    assert!(dir.path().join("cluster/postmaster.pid").exists());
    let server = start(dir.path());
    assert_eq!(ask(&server.url("postgres"), "SELECT 1").as_deref(), Ok("1"));
}

/// Not a test of its own: the owner that the tests below kill.
#[test]
fn owner() {
    let Some(dir) = std::env::var_os(OWNER_DATA) else { return };
    let server = start(Path::new(&dir));
    writeln!(std::io::stdout(), "\nowner {} {}", server.pid(), server.url("postgres")).expect("written");
    sleep(Duration::from_secs(60));
}

/// Runs this program again as an owner in a process group of its own; returns it with the postmaster's pid.
fn start_owner(dir: &Path) -> (Child, i32, String) {
    let mut owner = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "owner", "--nocapture"])
        .env(OWNER_DATA, dir)
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("owner runs");
    let lines = BufReader::new(owner.stdout.take().expect("piped")).lines();
    let line = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("owner ").map(str::to_owned))
        .expect("the owner reports");
    let (pid, url) = line.split_once(' ').expect("pid and URL");
    (owner, pid.parse().expect("pid"), url.to_owned())
}

#[test]
fn a_killed_owner_leaves_no_server_behind() {
    let dir = folder();
    let (mut owner, pid, url) = start_owner(dir.path());
    ask(&url, "CREATE TABLE t AS SELECT 'kept' AS word").expect("table made");
    let group = Pid::from_raw(owner.id().cast_signed());
    killpg(group, Signal::SIGKILL).expect("killed");
    owner.wait().expect("ended");
    // Started while the old one may still be shutting down.
    let server = start(dir.path());
    assert!(!is_alive(pid));
    assert_eq!(ask(&server.url("postgres"), "SELECT word FROM t").as_deref(), Ok("kept"));
    let log = std::fs::read_to_string(server.log()).expect("log");
    assert!(log.contains("received fast shutdown request"), "it was not killed hard: {log}");
    assert!(!log.contains("was not properly shut down"), "{log}");
}

#[test]
fn ctrl_c_does_not_reach_the_server_and_a_running_one_is_waited_for() {
    let dir = folder();
    let (mut owner, pid, url) = start_owner(dir.path());
    let path = dir.path().to_owned();
    let next = std::thread::spawn(move || start(&path));
    sleep(Duration::from_millis(300));
    assert!(!next.is_finished() && is_alive(pid), "the second waits for the first");
    assert_eq!(ask(&url, "SELECT 1").as_deref(), Ok("1"));
    kill(Pid::from_raw(owner.id().cast_signed()), Signal::SIGKILL).expect("killed");
    owner.wait().expect("ended");
    let server = next.join().expect("started");
    assert!(!is_alive(pid) && server.is_running());
}
