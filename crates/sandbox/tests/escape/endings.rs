//! What becomes of a command's processes: none outlives its end, its time, its caller, or the server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use answerable_sandbox::{Fault, How, Order, Sandbox, Settings, Stop};

use crate::world::{folder, limits, processes, run, sandbox, settings, until, until_gone};

/// Ways to start something that goes on: with the number of seconds as its mark.
const LASTING: [&str; 5] = [
    "sleep {} & echo started",
    "nohup sleep {} >/dev/null 2>&1 & echo started",
    "setsid sleep {} & setsid -f sleep {}; echo started",
    "(trap '' TERM HUP; (sleep {} &) &); echo started",
    "perl -e 'if (!fork) { setpgrp; if (!fork) { close STDOUT; exec \"sleep\", \"{}\" } exit } wait; print \"started\"'",
];

#[tokio::test]
async fn nothing_outlives_the_shell() {
    let Some(sandbox) = sandbox() else { return };
    for (i, script) in LASTING.iter().enumerate() {
        let mark = format!("8640{i}.25");
        let ended = run(&sandbox, &script.replace("{}", &mark), limits(20)).await;
        assert_eq!(ended.how, How::Exited(0), "{script}");
        assert!(
            ended.output.text().starts_with("started") && ended.took < Duration::from_secs(5),
            "{script}"
        );
        assert_eq!(processes(&mark), [0u32; 0], "{script}");
    }
}

#[tokio::test]
async fn nothing_outlives_its_time() {
    let Some(sandbox) = sandbox() else { return };
    for (i, script) in LASTING.iter().enumerate() {
        let mark = format!("8641{i}.25");
        let command = format!("echo early; {}; while :; do sleep {mark}; done", script.replace("{}", &mark));
        let ended = run(&sandbox, &command, limits(1)).await;
        assert_eq!(ended.how, How::Stopped(Stop::Time), "{script}");
        assert!(ended.took < Duration::from_secs(3), "{script}: {:?}", ended.took);
        assert!(ended.output.text().starts_with("early"), "{script}: what it said is kept");
        assert_eq!(processes(&mark), [0u32; 0], "{script}");
    }
}

#[tokio::test]
async fn nothing_outlives_its_caller() {
    let Some(sandbox) = sandbox() else { return };
    let folder = folder(&sandbox).await;
    let path = folder.path().to_owned();
    let order = Order { command: "sleep 86420.25".into(), network: false, limits: limits(60) };
    let (this, running) = (sandbox.clone(), "sleep\086420.25");
    let call = tokio::spawn(async move { this.run(folder, order).await });
    tokio::task::spawn_blocking(move || until(running, true)).await.expect("it runs");
    call.abort();
    let asked = Instant::now();
    tokio::task::spawn_blocking(move || until(running, false)).await.expect("it is gone");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    until_gone(&path).await;
}

/// The other program of the tests below.
#[tokio::test]
async fn a_server_that_is_killed_meanwhile() {
    let Some(folders) = std::env::var_os("ANSWERABLE_TEST_FOLDERS") else { return };
    let mark = std::env::var("ANSWERABLE_TEST_MARK").expect("a mark");
    std::fs::write(Path::new(&folders).join("begun"), "").expect("a file");
    let sandbox = Sandbox::new(Settings { folders: folders.into(), ..settings() });
    run(&sandbox, &format!("(setsid sleep {mark} &); sleep {mark}"), limits(60)).await;
}

/// Starts it.
fn server(folders: &Path, mark: &str) -> Child {
    std::fs::set_permissions(folders, std::fs::Permissions::from_mode(0o711)).expect("its mode");
    let mut server = Command::new(std::env::current_exe().expect("this program"));
    server.args(["--exact", "endings::a_server_that_is_killed_meanwhile"]);
    server.env("ANSWERABLE_TEST_FOLDERS", folders).env("ANSWERABLE_TEST_MARK", mark);
    server.stdout(Stdio::null()).spawn().expect("another of this")
}

#[tokio::test]
async fn nothing_outlives_the_server() {
    let Some(_) = sandbox() else { return };
    let folders = tempfile::tempdir().expect("a folder");
    let mut server = server(folders.path(), "86430.25");
    let running = "sleep\086430.25";
    until(running, true);
    server.kill().expect("it is ours");
    server.wait().expect("its end");
    let asked = Instant::now();
    until("86430.25", false);
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

/// While a sandbox is being made, there are moments at which nobody is bound to anybody yet.
#[tokio::test]
async fn nothing_outlives_a_server_that_dies_while_it_makes_a_sandbox() {
    let Some(_) = sandbox() else { return };
    for half_ms in 0..40 {
        let mark = format!("8644{half_ms:02}.{}", std::process::id());
        let folders = tempfile::tempdir().expect("a folder");
        let mut server = server(folders.path(), &mark);
        let begun = folders.path().join("begun");
        while !begun.exists() {
            assert!(server.try_wait().expect("its state").is_none(), "it didn't begin");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(500 * half_ms));
        server.kill().expect("it is ours");
        server.wait().expect("its end");
        let asked = Instant::now();
        until(&mark, false);
        assert!(asked.elapsed() < Duration::from_secs(2), "{half_ms}: {:?}", asked.elapsed());
    }
}

#[tokio::test]
async fn nothing_outlives_a_caller_that_goes_early() {
    let Some(sandbox) = sandbox() else { return };
    for half_ms in 0..40 {
        let mark = format!("8645{half_ms:02}.{}", std::process::id());
        let order = Order { command: format!("sleep {mark}"), network: false, limits: limits(60) };
        let run = sandbox.run(folder(&sandbox).await, order);
        let wait = tokio::time::timeout(Duration::from_micros(500 * half_ms), run);
        wait.await.expect_err("it sleeps for long");
        let asked = Instant::now();
        tokio::task::spawn_blocking(move || until(&mark, false)).await.expect("it is gone");
        assert!(asked.elapsed() < Duration::from_secs(2), "{half_ms}: {:?}", asked.elapsed());
    }
}

#[tokio::test]
async fn an_exit_is_told_as_it_was() {
    let Some(sandbox) = sandbox() else { return };
    for (command, code) in [
        ("true", 0),
        ("exit 7", 7),
        ("kill -9 $$", 137),
        ("exec sh -c 'kill -TERM $$'", 143),
        ("no-such-program", 127),
    ] {
        assert_eq!(run(&sandbox, command, limits(10)).await.how, How::Exited(code), "{command}");
    }
}

#[tokio::test]
async fn what_can_not_be_run_is_no_end() {
    let Some(sandbox) = sandbox() else { return };
    for command in ["a\0b".to_owned(), "x".repeat(200_000)] {
        let order = Order { command, network: false, limits: limits(5) };
        let fault = sandbox.run(folder(&sandbox).await, order).await.expect_err("a fault");
        assert!(matches!(fault, Fault::Command(_)), "{fault}");
    }
    let nowhere = Sandbox::new(Settings { bubblewrap: "/nowhere/bwrap".into(), ..settings() });
    assert_eq!(nowhere.probe().expect_err("none").what(), "bubblewrap is not installed");
    let broken = Sandbox::new(Settings { bubblewrap: "/bin/false".into(), ..settings() });
    broken.probe().expect_err("it makes nothing");
    let unconfined = Sandbox::new(Settings { bubblewrap: "/bin/echo".into(), ..settings() });
    unconfined.probe().expect_err("it makes nothing and says much");
}

#[tokio::test]
async fn there_are_only_so_many_at_once() {
    let Some(_) = sandbox() else { return };
    let sandbox = Sandbox::new(Settings { at_once: 1, ..settings() });
    let begun = Instant::now();
    let (one, other) = tokio::join!(ends(&sandbox, "sleep 0.3"), ends(&sandbox, "sleep 0.3"));
    assert_eq!((one, other), (How::Exited(0), How::Exited(0)));
    assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
}

/// How a command ends; nothing of it is held any longer.
async fn ends(sandbox: &Sandbox, command: &str) -> How {
    run(sandbox, command, limits(5)).await.how
}

#[tokio::test]
async fn a_place_is_free_when_its_folder_is_gone() {
    let Some(_) = sandbox() else { return };
    let sandbox = Sandbox::new(Settings { at_once: 1, ..settings() });
    let ended = run(&sandbox, "seq 2000 | xargs touch", limits(10)).await;
    let folder = ended.folder.path().to_owned();
    let wait = tokio::time::timeout(Duration::from_millis(200), sandbox.place());
    wait.await.expect_err("what it left is still looked at");
    drop(ended);
    sandbox.place().await;
    assert!(!folder.exists());
}
