//! A small disk of PostgreSQL's own, so that it can be filled without anybody else noticing.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Error, Result};

/// Enough for a cluster and ten minutes of work.
const SIZE: &str = "size=900m,mode=0711";
/// Written until nothing fits any more.
const PIECES: [usize; 3] = [1 << 20, 16 << 10, 512];
/// Unmounts when this process is gone, however it went.
const WATCH: &str = r#"cat >/dev/null; sleep 1; umount -l -- "$1""#;

/// A mounted tmpfs. Dropping it unmounts it.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    /// Holds the writing end of the watcher's input.
    _watcher: Child,
}

impl Disk {
    /// Mounts one at `path`; says why where this process may not.
    pub(super) fn mount(path: &Path) -> std::result::Result<Self, String> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "answerable-chaos"]).arg(path).output();
        match mounted {
            Ok(output) if output.status.success() => {}
            Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let mut watcher = Command::new("sh");
        watcher.args(["-c", WATCH, "sh"]).arg(path);
        watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut watcher, 0);
        let watcher = watcher.spawn().map_err(|error| error.to_string())?;
        Ok(Self { path: path.to_owned(), _watcher: watcher })
    }

    /// Fills it to the last byte.
    pub(super) fn fill(&self) -> Result<()> {
        let path = self.ballast();
        let mut file = File::create(&path).map_err(Error::io(path.display().to_string()))?;
        for size in PIECES {
            let piece = vec![0; size];
            while file.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    /// Gives the space back.
    pub(super) fn free(&self) {
        // Not there where it was never filled.
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The watcher does it a moment later where this fails.
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}
