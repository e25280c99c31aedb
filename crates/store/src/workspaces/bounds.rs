//! How much there may be.

use answerable_core::workspace::{MAX_FILE_BYTES, MAX_FILES, MAX_WORKSPACE_BYTES};
use answerable_ports::WorkspaceCommit;

use super::contents::{Ready, length};
use super::write::Present;

/// What of a commit is too large for any workspace, in words.
pub(super) fn too_large(commit: &WorkspaceCommit) -> Option<String> {
    let large = commit.changes.iter().find(|change| {
        change.content.as_ref().is_some_and(|content| content.bytes.len() as u64 > MAX_FILE_BYTES)
    });
    match large {
        Some(change) => Some(format!("{} would be larger than {MAX_FILE_BYTES} bytes", change.path)),
        None if commit.changes.len() as u64 > 2 * MAX_FILES => {
            Some(format!("more than {} files would change at once", 2 * MAX_FILES))
        }
        None => None,
    }
}

/// By how much a workspace grows.
pub(super) struct Growth {
    pub(super) files: i64,
    pub(super) bytes: i64,
}

impl Growth {
    pub(super) fn of(changes: &[Ready<'_>], present: &Present) -> Self {
        let (mut files, mut bytes) = (0, 0);
        for kept in changes.iter().filter_map(|change| change.content.as_ref()) {
            (files, bytes) = (files + 1, bytes + length(kept.bytes));
        }
        for file in present.values() {
            (files, bytes) = (files - 1, bytes - i64::try_from(file.bytes).unwrap_or(0));
        }
        Self { files, bytes }
    }

    /// Which bound it broke, in words. What shrinks is let be.
    pub(super) fn over(&self, files: i64, bytes: i64) -> Option<String> {
        if self.files > 0 && files.unsigned_abs() > MAX_FILES {
            return Some(format!("a workspace holds at most {MAX_FILES} files"));
        }
        (self.bytes > 0 && bytes.unsigned_abs() > MAX_WORKSPACE_BYTES)
            .then(|| format!("a workspace holds at most {MAX_WORKSPACE_BYTES} bytes"))
    }
}
