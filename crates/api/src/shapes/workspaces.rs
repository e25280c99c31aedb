//! Files of workspaces.

use answerable_ports::FileAt;
use serde::Serialize;

use super::Time;

/// A file as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct WorkspaceFile {
    path: String,
    version: i64,
    bytes: u64,
    media_type: String,
    sha256: String,
    updated_at: Time,
    updated_by: String,
}

/// A file that was just stored.
#[derive(Debug, Serialize)]
pub(crate) struct StoredFile {
    pub(crate) path: String,
    pub(crate) version: i64,
    pub(crate) bytes: u64,
}

impl From<FileAt> for WorkspaceFile {
    fn from(file: FileAt) -> Self {
        Self {
            path: file.path.to_string(),
            version: file.version,
            bytes: file.bytes,
            media_type: file.media_type,
            sha256: file.hash.to_string(),
            updated_at: Time(file.updated_at),
            updated_by: file.updated_by,
        }
    }
}
