//! Memory of a sandbox's processes.
//!
//! Each process tells what it has mapped. What it shares with others is in no process's own account: memory that two
//! processes have mapped is counted once; and memory that was mapped as shared stays when it is mapped no more, or only in
//! part, and no process tells of that. The files behind such memory tell their size to a server that is root. To others
//! only the machine tells how much there is of it in all: by how much that grew is then taken for the sandbox's, if it has
//! any such memory.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::processes::{Processes, Told};

/// What the kernel calls the files behind shared memory that was made without one.
const NAMELESS: &str = "/dev/zero (deleted)";

/// Watches the memory of one sandbox.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The least that the machine had of it since the sandbox was started, in bytes.
    least: u64,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self { least: machines_shared() }
    }

    /// Whether the processes use more than `limit`, in bytes. The closer a look, the longer it takes; it is only taken
    /// where it matters.
    pub(crate) fn is_over(&mut self, processes: &Processes, limit: u64) -> bool {
        let now = machines_shared();
        self.least = self.least.min(now);
        let grown = now - self.least;
        let ids = processes.ids();
        let mapped: u64 = ids.iter().map(|process| Mapped::quick(*process).all()).sum();
        if mapped + grown <= limit {
            return false;
        }
        let shared = shared(processes).unwrap_or(grown);
        if mapped + shared <= limit {
            return false;
        }
        let (own, shown) = ids
            .iter()
            .map(|process| Mapped::once(*process))
            .fold((0, 0), |sum, mapped| (sum.0 + mapped.own, sum.1 + mapped.shared));
        own + shared.max(shown) > limit
    }
}

/// What a process has mapped, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mapped {
    /// Its own memory, and files.
    own: u64,
    /// Shared memory.
    shared: u64,
}

impl Mapped {
    /// All that it has; what it shares is counted in full. A process that has ended has none.
    fn quick(process: u32) -> Self {
        let told = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let of = |name| in_kib(&told, name).unwrap_or(0);
        let shared = of("RssShmem:");
        Self { own: (of("VmRSS:") + of("VmSwap:")).saturating_sub(shared), shared }
    }

    /// The same with its part of what is shared; where that can't be told, all of it.
    fn once(process: u32) -> Self {
        let told = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
        let of = |name| in_kib(&told, name);
        match (of("Pss:"), of("Pss_Shmem:")) {
            (Some(all), Some(shared)) => {
                Self { own: (all + of("SwapPss:").unwrap_or(0)).saturating_sub(shared), shared }
            }
            _ => Self::quick(process),
        }
    }

    fn all(self) -> u64 {
        self.own + self.shared
    }
}

/// Bytes of shared memory without a file that the processes have, mapped or not; `None`: they have some, or may have some,
/// and how much can't be told.
fn shared(processes: &Processes) -> Option<u64> {
    let mut files = HashMap::new();
    for process in processes.ids() {
        let maps = match Told::from(fs::read_to_string(format!("/proc/{process}/maps"))) {
            Told::This(maps) => maps,
            Told::Gone => continue,
            Told::Hidden => return None,
        };
        for line in maps.lines().filter(|line| line.ends_with(NAMELESS)) {
            let range = line.split(' ').next().unwrap_or_default();
            match Told::from(fs::metadata(format!("/proc/{process}/map_files/{range}"))) {
                Told::This(file) => files.insert((file.dev(), file.ino()), file.blocks() * 512),
                Told::Gone => continue,
                Told::Hidden => return None,
            };
        }
    }
    Some(files.values().sum())
}

/// Bytes of shared memory that the machine has. What is swapped out may be some.
fn machines_shared() -> u64 {
    let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name| in_kib(&told, name).unwrap_or(0);
    of("Shmem:") + of("SwapTotal:").saturating_sub(of("SwapFree:"))
}

fn in_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A process that has done this, and waits.
    fn perl(script: &str) -> Child {
        let script = format!("$| = 1; {script}; print \"done\\n\"; sleep 60");
        let mut child = Command::new("perl");
        let mut child = child.args(["-e", &script]).stdout(Stdio::piped()).spawn().expect("Perl");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        assert_eq!(line, "done\n");
        child
    }

    fn is_over(child: &Child, memory: &mut Memory, limit: u64) -> bool {
        memory.is_over(&Processes::only(child.id()), limit)
    }

    #[test]
    fn memory_that_is_mapped_is_counted() {
        let mut memory = Memory::new();
        let mut child = perl("$x = \"x\" x 30_000_000");
        assert!(is_over(&child, &mut memory, 25 << 20));
        assert!(!is_over(&child, &mut memory, 1 << 40));
        child.kill().expect("it is ours");
        child.wait().expect("its end");
        assert_eq!(Mapped::quick(child.id()), Mapped::default());
    }

    #[test]
    fn shared_memory_is_counted_also_where_it_is_mapped_no_more() {
        let mut memory = Memory::new();
        let (mmap, read, munmap) = (libc::SYS_mmap, libc::SYS_read, libc::SYS_munmap);
        let take = format!(
            "open(Z, \"/dev/zero\"); for (1..8) {{ $a = syscall({mmap}, 0, 10_000_000, 3, 0x21, -1, 0); \
             syscall({read}, fileno(Z), $a, 10_000_000) == 10_000_000 or die; syscall({munmap}, $a, 9_990_000) }}"
        );
        let mut child = perl(&take);
        assert!(is_over(&child, &mut memory, 70 << 20));
        assert!(!is_over(&child, &mut memory, 1 << 40));
        child.kill().expect("it is ours");
        child.wait().expect("its end");
    }
}
