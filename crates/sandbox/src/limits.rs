//! What a command may use.

use std::time::Duration;

const MIB: u64 = 1 << 20;

/// What a command may use. A process's own limits are kept by the kernel; those of all processes together are watched,
/// so that a command may be over them for a moment before it is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time until it is ended.
    pub time: Duration,
    /// Bytes of memory of all its processes together.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u32,
    /// Bytes of all files in its folder together.
    pub disk: u64,
    /// Entries of its folder, folders within included.
    pub entries: u64,
    /// Bytes of one file.
    pub file: u64,
    /// Files that one process may have open.
    pub open_files: u32,
    /// Bytes of output that are kept.
    pub output: usize,
    /// Bytes of output at which it is ended.
    pub flood: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            memory: 512 * MIB,
            processes: 64,
            disk: 1024 * MIB,
            entries: 50_000,
            file: 256 * MIB,
            open_files: 256,
            output: MIB as usize,
            flood: 64 * MIB,
        }
    }
}
