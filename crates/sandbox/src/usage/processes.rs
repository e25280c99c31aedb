//! The processes of a sandbox, and their memory.

use std::fs;
use std::path::PathBuf;

/// Most processes that are looked at; there are fewer, or the limit on them doesn't hold.
const MOST: usize = 4096;

/// A process and all its descendants. A sandbox's process 1 takes in every orphan, so none leaves the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Processes(Vec<u32>);

impl Processes {
    pub(crate) fn of(root: u32) -> Self {
        let mut found = vec![root];
        let mut next = 0;
        while next < found.len() && found.len() < MOST {
            found.extend(children(found[next]));
            next += 1;
        }
        Self(found)
    }

    /// Whether the system tells of a process's children at all.
    pub(crate) fn can_be_seen() -> bool {
        let this = std::process::id();
        fs::read_to_string(format!("/proc/{this}/task/{this}/children")).is_ok()
    }

    /// Processes and threads.
    pub(crate) fn threads(&self) -> usize {
        self.0.iter().map(|process| tasks(*process).count()).sum()
    }

    /// Whether they use more memory than `limit`, in bytes. What they share is counted once, which takes a closer look
    /// that is only taken where it matters.
    pub(crate) fn are_over(&self, limit: u64) -> bool {
        let quick: u64 = self.0.iter().map(|process| resident(*process)).sum();
        quick > limit && self.0.iter().map(|process| proportional(*process)).sum::<u64>() > limit
    }

    /// Files that were deleted and are still open, on the device: number of each, and bytes on disk.
    pub(crate) fn deleted_files(&self, device: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        use std::os::unix::fs::MetadataExt;
        let open =
            self.0.clone().into_iter().filter_map(|process| fs::read_dir(format!("/proc/{process}/fd")).ok());
        let files = open.flatten().flatten().filter_map(|fd| fs::metadata(fd.path()).ok());
        files
            .filter(move |file| file.is_file() && file.nlink() == 0 && file.dev() == device)
            .map(|file| (file.ino(), file.blocks() * 512))
    }

    /// The processes, the root first.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.0
    }
}

fn tasks(process: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten().map(|task| task.path())
}

fn children(process: u32) -> Vec<u32> {
    let lists = tasks(process).filter_map(|task| fs::read_to_string(task.join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Bytes in memory, those that are shared included; of a process that has ended, none.
fn resident(process: u32) -> u64 {
    in_kib(&fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default(), "VmRSS:").unwrap_or(0)
}

/// The same with its part of what is shared; where that can't be told, all of it.
fn proportional(process: u32) -> u64 {
    let told = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok();
    told.and_then(|text| in_kib(&text, "Pss:")).unwrap_or_else(|| resident(process))
}

fn in_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_with_its_descendants_and_their_memory() {
        assert!(Processes::can_be_seen());
        let mut shell = std::process::Command::new("/bin/sh");
        let mut child = shell.args(["-c", "sleep 60 & wait"]).spawn().expect("a shell");
        let whole = loop {
            let found = Processes::of(child.id());
            if found.ids().len() == 2 && found.are_over(4096) {
                break found;
            }
            std::thread::yield_now();
        };
        assert_eq!(whole.threads(), 2);
        assert!(!whole.are_over(1 << 40));
        for process in whole.ids().iter().rev() {
            let process = nix::unistd::Pid::from_raw(process.cast_signed());
            nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).expect("it is ours");
        }
        child.wait().expect("its end");
        assert_eq!(resident(child.id()), 0);
    }
}
