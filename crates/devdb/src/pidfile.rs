//! `postmaster.pid`: who runs on a cluster, and whether it is ready.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Error;

const LINE_OF_STATUS: usize = 7;

/// Whether the postmaster `pid` says in its file that it takes connections.
pub(crate) fn is_ready(cluster: &Path, pid: i32) -> bool {
    let Ok(text) = fs::read_to_string(path(cluster)) else { return false };
    let mut lines = text.lines();
    lines.next().and_then(|line| line.trim().parse().ok()) == Some(pid)
        && lines.nth(LINE_OF_STATUS - 1).is_some_and(|status| status.trim() == "ready")
}

/// Waits until no postmaster runs on `cluster`, such as one that is still shutting down after its owner was
/// killed. A file left by a dead one is no obstacle.
pub(crate) fn wait_until_free(cluster: &Path, deadline: Instant) -> Result<(), Error> {
    while let Some(pid) = read_pid(cluster) {
        match who_is(pid, cluster) {
            Who::Nobody => break,
            Who::Stranger => {
                // PostgreSQL itself would take a reused process id for a live postmaster.
                fs::remove_file(path(cluster)).map_err(|e| Error::folder(cluster, e))?;
            }
            Who::Postmaster if Instant::now() >= deadline => {
                return Err(Error::InUse { dir: cluster.to_owned(), pid: Some(pid) });
            }
            Who::Postmaster => sleep(Duration::from_millis(20)),
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Who {
    Nobody,
    Stranger,
    Postmaster,
}

/// A postmaster's working folder is its cluster.
fn who_is(pid: i32, cluster: &Path) -> Who {
    let process = PathBuf::from(format!("/proc/{pid}"));
    match fs::read_link(process.join("cwd")) {
        Ok(cwd) if cwd == cluster => Who::Postmaster,
        Ok(_) => Who::Stranger,
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            match fs::read_to_string(process.join("comm")) {
                Ok(name) if name.trim() == "postgres" => Who::Postmaster,
                _ => Who::Stranger,
            }
        }
        Err(_) => Who::Nobody,
    }
}

fn read_pid(cluster: &Path) -> Option<i32> {
    let text = fs::read_to_string(path(cluster)).ok()?;
    text.lines().next()?.trim().parse().ok().filter(|pid| *pid > 0)
}

fn path(cluster: &Path) -> PathBuf {
    cluster.join("postmaster.pid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(path(dir.path()), text).expect("file");
        dir
    }

    #[test]
    fn ready_is_told_by_the_status_line_of_the_same_process() {
        let dir = cluster("42\n/data\n1700000000\n5432\n/socket\n\n  5432001   1\nready   \n");
        assert!(is_ready(dir.path(), 42));
        assert!(!is_ready(dir.path(), 43));
        let dir = cluster("42\n/data\n1700000000\n5432\n/socket\n\n  5432001   1\nstarting\n");
        assert!(!is_ready(dir.path(), 42));
    }

    #[test]
    fn files_left_behind_are_no_obstacle() {
        let own = std::process::id().to_string();
        for text in ["4194304\n", &own, "rubbish", ""] {
            let dir = cluster(text);
            wait_until_free(dir.path(), Instant::now()).expect("free");
            assert_eq!(path(dir.path()).exists(), text != own, "{text:?}");
        }
    }
}
