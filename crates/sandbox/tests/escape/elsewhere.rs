//! Machines on which a sandbox must not be used. They are made of mounts of this one, which takes root.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use answerable_sandbox::{Fault, How, Limits, Order, Sandbox, Settings, Stop};

use crate::world::{folder, limits, run, sandbox, settings};

/// Where the other programs of the tests below find what they need.
const FOLDER: &str = "ANSWERABLE_TEST_ELSEWHERE";

/// Runs another test of this program, having made its machine, over a folder that all may enter.
fn elsewhere(make: &str, test: &str) {
    if sandbox().is_none() || !nix::unistd::geteuid().is_root() {
        eprintln!("\n!!! SKIPPED: it takes root.\n");
        return;
    }
    let temp = tempfile::tempdir().expect("a folder");
    let copies = [(std::env::current_exe().expect("this"), "test"), (settings().init, "init")];
    for (from, to) in copies {
        std::fs::copy(from, temp.path().join(to)).expect("a copy");
    }
    std::fs::create_dir(temp.path().join("folders")).expect("a folder");
    for path in [temp.path(), &temp.path().join("folders")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("its mode");
    }
    let script = format!("cd \"${FOLDER}\" && {make} ./test --exact {test} --nocapture");
    let mut program = Command::new("unshare");
    program.args(["--mount", "sh", "-ec", &script]).env(FOLDER, temp.path());
    let ended = program.output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stdout);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}{errors}");
    assert!(errors.contains("as it must be"), "it tried nothing: {said}{errors}");
}

fn there() -> Option<Sandbox> {
    let folder = std::env::var_os(FOLDER)?;
    let folder = Path::new(&folder);
    Some(Sandbox::new(Settings { folders: folder.join("folders"), init: folder.join("init"), ..settings() }))
}

#[tokio::test]
async fn on_a_disk_that_is_nearly_full() {
    let Some(sandbox) = there() else { return };
    let order = Order { command: "true".into(), network: false, limits: limits(10) };
    let fault = sandbox.run(folder(&sandbox).await, order).await.expect_err("a fault");
    assert!(matches!(&fault, Fault::NotMade(why) if why.contains("nearly full")), "{fault}");
    eprintln!("as it must be");
}

#[test]
fn a_disk_that_is_nearly_full_is_no_commands_fault() {
    elsewhere("mount -t tmpfs -o size=40m none folders;", "elsewhere::on_a_disk_that_is_nearly_full");
}

#[tokio::test]
async fn where_processes_are_hidden() {
    let Some(sandbox) = there() else { return };
    assert!(!Path::new("/proc/1").exists(), "this process sees others' processes");
    // A sandbox's processes are shown to whom its namespaces belong; elsewhere there must be none.
    if let Err(why) = sandbox.probe() {
        assert!(why.what().contains("can't watch"), "{why}");
    } else {
        let much = "for i in 1 2 3 4 5 6; do perl -e '$x = \"x\" x 30_000_000; sleep 30' & done; wait";
        let ended = run(&sandbox, much, Limits { memory: 64 << 20, ..limits(20) }).await;
        assert_eq!(ended.how, How::Stopped(Stop::Memory));
    }
    eprintln!("as it must be");
}

#[test]
fn no_command_is_unwatched_where_processes_are_hidden() {
    let make = "mount -t proc -o hidepid=2 none /proc; exec setpriv --reuid 4321 --regid 4321 --clear-groups";
    elsewhere(make, "elsewhere::where_processes_are_hidden");
}
