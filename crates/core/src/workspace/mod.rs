//! What is true of a workspace's files, whoever keeps them: their paths, their bounds, and what a run may overwrite.

mod path;
mod seen;

pub use path::{FilePath, MAX_DEPTH, MAX_PATH_BYTES, MAX_SEGMENT_BYTES, PathFault, read_prefix};
pub use seen::{Clash, Seen};

/// Bytes that one file may have.
pub const MAX_FILE_BYTES: u64 = 20 << 20;
/// Files that one workspace may have.
pub const MAX_FILES: u64 = 10_000;
/// Bytes that all files of one workspace may have together.
pub const MAX_WORKSPACE_BYTES: u64 = 1 << 30;
