//! What is written down of people's own changes in the record of who did what. Calls' changes are in their runs.

use answerable_core::audit::Action;
use answerable_core::id::WorkspaceId;
use answerable_core::json::sha256_hex;
use serde_json::json;

use super::contents::{Ready, length};
use crate::tx::TenantTx;

impl TenantTx {
    /// A person changed files.
    pub(super) fn file_acts(&mut self, workspace: WorkspaceId, version: i64, changes: &[Ready<'_>]) {
        for change in changes {
            // Names of files say much of what is in them.
            let path_hash = sha256_hex(change.path.as_str().as_bytes());
            match &change.content {
                Some(content) => {
                    let detail = json!({"path_hash": path_hash, "version": version, "bytes": length(content.bytes),
                        "sha256": content.hash.to_string()});
                    self.act(Action::FilePut, workspace, detail);
                }
                None => {
                    self.act(
                        Action::FileDelete,
                        workspace,
                        json!({"path_hash": path_hash, "version": version}),
                    );
                }
            }
        }
    }
}
