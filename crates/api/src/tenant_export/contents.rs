//! What artifacts and files hold, in parts.

use std::io;

use answerable_core::id::{ArtifactId, WorkspaceId};
use answerable_core::workspace::FilePath;
use answerable_ports::{Workspace, WorkspaceStore as _};
use answerable_store::{ExportKind, ExportRow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::Export;

/// Bytes of a part: whole groups of three, so that the parts' texts together are the whole's.
const PART: usize = 192 << 10;

impl Export {
    /// What a row's thing holds. What was deleted since the row was read has no parts.
    pub(super) async fn contents(&mut self, kind: ExportKind, row: &ExportRow) -> Result<(), io::Error> {
        let (kind, name, content) = match kind {
            ExportKind::Artifact => {
                let id = ArtifactId(row.id());
                let mut tx = self.state.store.tenant(self.tenant).await.map_err(io::Error::other)?;
                let found = tx.artifact_content(id).await.map_err(io::Error::other)?;
                ("artifact_content", json!({"id": id}), found.map(|(_, bytes)| bytes))
            }
            _ => {
                let id = WorkspaceId(row.id());
                let content = self.file(id, row.path()).await?;
                ("file_content", json!({"workspace_id": id, "path": row.path()}), content)
            }
        };
        let Some(content) = content else { return Ok(()) };
        let Value::Object(name) = name else { return Ok(()) };
        self.parts(kind, &name, &content).await
    }

    async fn file(&self, workspace_id: WorkspaceId, path: &str) -> Result<Option<Bytes>, io::Error> {
        let (files, workspace) =
            (&self.state.config.workspaces, Workspace { tenant_id: self.tenant, workspace_id });
        let Ok(path) = FilePath::parse(path) else { return Ok(None) };
        let Some(file) = files.file(workspace, &path).await.map_err(io::Error::other)? else {
            return Ok(None);
        };
        let mut contents = files.contents(self.tenant, &[file]).await.map_err(io::Error::other)?;
        Ok(contents.pop())
    }

    async fn parts(
        &mut self,
        kind: &'static str,
        name: &Map<String, Value>,
        content: &Bytes,
    ) -> Result<(), io::Error> {
        let count = content.len().div_ceil(PART).max(1);
        for part in 0..count {
            let bytes = &content[part * PART..content.len().min((part + 1) * PART)];
            let mut data = name.clone();
            data.insert("part".into(), json!(part));
            data.insert("parts".into(), json!(count));
            data.insert("base64".into(), json!(STANDARD.encode(bytes)));
            let line = self.line(kind, &Value::Object(data).to_string());
            self.say(line).await?;
        }
        Ok(())
    }
}
