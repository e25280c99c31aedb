//! The processes of a sandbox.

use std::path::PathBuf;
use std::{fs, io};

/// Most processes that are looked at; there are fewer, or the limit on them doesn't hold.
const MOST: usize = 4096;

/// All descendants of a process, without itself: a sandbox's process 1 takes in every orphan, so none leaves the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Processes(Vec<u32>);

impl Processes {
    pub(crate) fn of(root: u32) -> Self {
        let mut found = children(root);
        let mut next = 0;
        while next < found.len() && found.len() < MOST {
            found.extend(children(found[next]));
            next += 1;
        }
        Self(found)
    }

    #[cfg(test)]
    pub(crate) fn only(process: u32) -> Self {
        Self(vec![process])
    }

    /// Processes and threads.
    pub(crate) fn threads(&self) -> usize {
        self.0.iter().map(|process| tasks(*process).count()).sum()
    }

    /// Their numbers, those that are nearer to the root first.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.0
    }
}

/// What the processes of a sandbox told of themselves.
#[derive(Debug)]
pub(super) enum Told<T> {
    /// This.
    This(T),
    /// Nothing: it has ended.
    Gone,
    /// Nothing, though it runs: it made itself, or its program is, such that only a mightier server may look.
    Hidden,
}

impl<T> From<io::Result<T>> for Told<T> {
    fn from(told: io::Result<T>) -> Self {
        match told {
            Ok(told) => Self::This(told),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::Hidden,
            Err(_) => Self::Gone,
        }
    }
}

/// A process's threads, each a folder of what the system tells of it.
pub(super) fn tasks(process: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten().map(|task| task.path())
}

/// The processes that a process started and that it has not buried.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let lists = tasks(process).filter_map(|task| fs::read_to_string(task.join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether the system tells of that process's children at all: some are built without, some hide processes.
pub(crate) fn tells_of_children(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/task/{process}/children")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_with_its_descendants() {
        assert!(tells_of_children(std::process::id()));
        let mut shell = std::process::Command::new("/bin/sh");
        let mut child = shell.args(["-c", "sh -c 'sleep 60; true' & wait"]).spawn().expect("a shell");
        let whole = loop {
            let found = Processes::of(child.id());
            if found.ids().len() == 2 {
                break found;
            }
            std::thread::yield_now();
        };
        assert_eq!(whole.threads(), 2);
        for process in whole.ids().iter().rev() {
            let process = nix::unistd::Pid::from_raw(process.cast_signed());
            nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).expect("it is ours");
        }
        child.wait().expect("its end");
        assert_eq!(Processes::of(child.id()).ids(), [0u32; 0]);
        assert!(!tells_of_children(child.id()));
    }
}
