//! Changing files, all of a commit or nothing. Whoever writes holds the workspace's row; whose workspace it is can't be
//! deleted meanwhile. Locks: the tenant, the thread or run, the workspace, contents in the order of their hashes.

use std::collections::BTreeMap;

use answerable_ports::{Author, Expected, FileAt, FilesCommitted};
use uuid::Uuid;

use super::bounds::Growth;
use super::contents::{Kept, Ready, length};
use super::files::{FileRow, read_path};
use crate::Result;
use crate::counts::Counted;
use crate::error::store_error;
use crate::tx::TenantTx;

/// What a file is taken for whose writer doesn't say.
const TEXT: &str = "text/plain; charset=utf-8";
const BINARY: &str = "application/octet-stream";

/// What there is of the paths that are to change.
pub(super) type Present = BTreeMap<String, FileAt>;

impl TenantTx {
    /// Makes changes, or says why not; then the transaction must not be committed.
    pub(super) async fn files_commit(
        &mut self,
        workspace: Uuid,
        by: &Author,
        changes: &[Ready<'_>],
    ) -> Result<FilesCommitted> {
        let Some(version) = self.workspace_lock(workspace).await? else {
            return Ok(FilesCommitted::NoWorkspace);
        };
        if let Author::Call { call_id, .. } = by
            && let Some(outcome) = self.call_outcome(*call_id).await?
        {
            return Ok(FilesCommitted::Repeated(outcome));
        }
        let present = self.files_present(workspace, changes).await?;
        if let Some(conflict) = changes.iter().find_map(|change| conflict(change, &present)) {
            return Ok(conflict);
        }
        let version = version + i64::from(!changes.is_empty());
        if let Some(refused) = self.files_change(workspace, version, by, changes, &present).await? {
            return Ok(refused);
        }
        if let Author::Call { run_id, call_id, output } = by {
            let seen: Vec<(&str, Option<i64>)> = changes
                .iter()
                .map(|change| (change.path.as_str(), change.content.as_ref().map(|_| version)))
                .collect();
            self.files_saw(workspace, *run_id, &seen).await?;
            self.call_outcome_keep(*run_id, *call_id, version, output).await?;
        }
        Ok(FilesCommitted::Stored { version })
    }

    /// Locks the workspace and whose it is; gives its version. `None`: it is nobody's.
    async fn workspace_lock(&mut self, workspace: Uuid) -> Result<Option<i64>> {
        let tenant = self.tenant();
        sqlx::query!("SELECT FROM tenants WHERE tenant_id = $1 FOR KEY SHARE", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        if !self.owner_lock(workspace).await? {
            return Ok(None);
        }
        sqlx::query!(
            "INSERT INTO workspaces (tenant_id, workspace_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            tenant,
            workspace,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        sqlx::query_scalar!(
            "SELECT version FROM workspaces WHERE tenant_id = $1 AND workspace_id = $2 FOR UPDATE",
            tenant,
            workspace,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Locks who has the workspace, as `workspace_is_somebodys` has it: its thread, or a run that nobody called.
    async fn owner_lock(&mut self, workspace: Uuid) -> Result<bool> {
        let tenant = self.tenant();
        let thread = sqlx::query!(
            "SELECT FROM threads WHERE tenant_id = $1 AND workspace_id = $2 AND deleted_at IS NULL FOR SHARE",
            tenant,
            workspace,
        );
        if thread.execute(self.conn()).await.map_err(store_error)?.rows_affected() > 0 {
            return Ok(true);
        }
        let run = sqlx::query!(
            "SELECT FROM runs r WHERE tenant_id = $1 AND workspace_id = $2
                 AND NOT EXISTS (SELECT FROM children c WHERE c.tenant_id = r.tenant_id AND c.run_id = r.run_id)
                 AND NOT EXISTS (SELECT FROM threads t WHERE t.tenant_id = $1 AND t.workspace_id = $2)
             LIMIT 1 FOR KEY SHARE OF r",
            tenant,
            workspace,
        );
        Ok(run.execute(self.conn()).await.map_err(store_error)?.rows_affected() > 0)
    }

    pub(super) async fn files_present(&mut self, workspace: Uuid, changes: &[Ready<'_>]) -> Result<Present> {
        let tenant = self.tenant();
        let paths: Vec<String> = changes.iter().map(|change| change.path.to_string()).collect();
        let rows = sqlx::query_as!(
            FileRow,
            "SELECT path, version, sha256, bytes, media_type, updated_at, updated_by FROM workspace_files
             WHERE tenant_id = $1 AND workspace_id = $2 AND path = ANY($3)",
            tenant,
            workspace,
            &paths,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter().map(|row| FileAt::try_from(row).map(|file| (file.path.to_string(), file))).collect()
    }

    /// Writes the rows; `Some`: it can't be, and the transaction must not be committed.
    async fn files_change(
        &mut self,
        workspace: Uuid,
        version: i64,
        by: &Author,
        changes: &[Ready<'_>],
        present: &Present,
    ) -> Result<Option<FilesCommitted>> {
        let contents: Vec<&Kept<'_>> = changes.iter().filter_map(|change| change.content.as_ref()).collect();
        let left: Vec<Vec<u8>> = present.values().map(|file| file.hash.0.to_vec()).collect();
        let taken = contents.iter().map(|kept| kept.hash.0.to_vec());
        self.blobs_lock(&left.iter().cloned().chain(taken).collect::<Vec<_>>()).await?;
        self.blobs_use(&contents).await?;
        let gone: Vec<String> = changes
            .iter()
            .filter(|change| change.content.is_none())
            .map(|change| change.path.to_string())
            .collect();
        self.files_delete(workspace, &gone).await?;
        self.files_put(workspace, version, by, changes, present).await?;
        if let Some(in_the_way) = self.in_the_way(workspace, changes).await? {
            return Ok(Some(in_the_way));
        }
        self.blobs_leave(&left).await?;
        let growth = Growth::of(changes, present);
        self.workspace_count(workspace, version, &growth).await
    }

    async fn files_delete(&mut self, workspace: Uuid, paths: &[String]) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "DELETE FROM workspace_files WHERE tenant_id = $1 AND workspace_id = $2 AND path = ANY($3)",
            tenant,
            workspace,
            paths,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    async fn files_put(
        &mut self,
        workspace: Uuid,
        version: i64,
        by: &Author,
        changes: &[Ready<'_>],
        present: &Present,
    ) -> Result<()> {
        let tenant = self.tenant();
        let (mut paths, mut hashes, mut lengths, mut types) = (vec![], vec![], vec![], vec![]);
        for change in changes {
            let Some(kept) = &change.content else { continue };
            paths.push(change.path.to_string());
            hashes.push(kept.hash.0.to_vec());
            lengths.push(length(kept.bytes));
            types.push(media_type(kept, present.get(change.path.as_str())));
        }
        sqlx::query!(
            "INSERT INTO workspace_files (tenant_id, workspace_id, path, version, sha256, bytes, media_type, updated_at,
                 updated_by)
             SELECT $1, $2, c.path, $3, c.sha256, c.bytes, c.media_type, clock_timestamp(), $4
             FROM unnest($5::text[], $6::bytea[], $7::bigint[], $8::text[]) AS c(path, sha256, bytes, media_type)
             ON CONFLICT (tenant_id, workspace_id, path) DO UPDATE SET version = excluded.version,
                 sha256 = excluded.sha256, bytes = excluded.bytes, media_type = excluded.media_type,
                 updated_at = excluded.updated_at, updated_by = excluded.updated_by",
            tenant,
            workspace,
            version,
            name_of(by),
            &paths,
            &hashes,
            &lengths,
            &types,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// A file that stands where a file that was written, or another one because of it, has a folder.
    async fn in_the_way(&mut self, workspace: Uuid, changes: &[Ready<'_>]) -> Result<Option<FilesCommitted>> {
        let tenant = self.tenant();
        let written = changes.iter().filter(|change| change.content.is_some());
        let paths: Vec<String> = written.clone().map(|change| change.path.to_string()).collect();
        let (mut folders, mut within): (Vec<String>, Vec<String>) = (vec![], vec![]);
        for path in written.map(|change| change.path) {
            folders.extend(path.folders().map(str::to_owned));
            within.resize(folders.len(), path.to_string());
        }
        let found = sqlx::query!(
            r#"SELECT f.path AS "file!", c.path AS "within!" FROM unnest($3::text[], $4::text[]) AS c(folder, path)
               JOIN workspace_files f ON f.tenant_id = $1 AND f.workspace_id = $2 AND f.path = c.folder
               UNION ALL
               SELECT c.path, f.path FROM unnest($5::text[]) AS c(path)
               JOIN workspace_files f ON f.tenant_id = $1 AND f.workspace_id = $2
                   AND f.path > (c.path || '/') COLLATE "C" AND f.path < (c.path || '0') COLLATE "C"
               LIMIT 1"#,
            tenant,
            workspace,
            &folders,
            &within,
            &paths,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(found) = found else { return Ok(None) };
        let (file, within) = (read_path(&found.file)?, read_path(&found.within)?);
        Ok(Some(FilesCommitted::InTheWay { file, within }))
    }

    async fn workspace_count(
        &mut self,
        workspace: Uuid,
        version: i64,
        growth: &Growth,
    ) -> Result<Option<FilesCommitted>> {
        let tenant = self.tenant();
        let now = sqlx::query!(
            "UPDATE workspaces SET version = $3, files = files + $4, bytes = bytes + $5
             WHERE tenant_id = $1 AND workspace_id = $2 RETURNING files, bytes",
            tenant,
            workspace,
            version,
            growth.files,
            growth.bytes,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        if let Some(words) = growth.over(now.files, now.bytes) {
            return Ok(Some(FilesCommitted::OverLimit(words)));
        }
        Ok(
            if growth.bytes > 0
                && let Err(full) = self.room_after(Counted::WorkspaceBytes, growth.bytes).await?
            {
                Some(FilesCommitted::Full(full.to_string()))
            } else {
                None
            },
        )
    }
}

pub(super) fn conflict(change: &Ready<'_>, present: &Present) -> Option<FilesCommitted> {
    let found = present.get(change.path.as_str()).map(|file| file.version);
    let is_as_expected = match change.expected {
        Expected::Anything => true,
        Expected::Absent => found.is_none(),
        Expected::Present => found.is_some(),
        Expected::Version(version) => found == Some(version),
    };
    let (path, expected) = (change.path.clone(), change.expected);
    (!is_as_expected).then_some(FilesCommitted::Conflict { path, expected, found })
}

fn name_of(by: &Author) -> String {
    match by {
        Author::Call { run_id, .. } => run_id.to_string(),
        Author::Caller(name) => name.clone(),
    }
}

/// A type that somebody gave stays; otherwise it is what the content looks like.
fn media_type(kept: &Kept<'_>, present: Option<&FileAt>) -> String {
    if let Some(given) = kept.media_type {
        return given.to_owned();
    }
    match present.map(|file| file.media_type.as_str()) {
        Some(known) if known != TEXT && known != BINARY => known.to_owned(),
        _ if std::str::from_utf8(kept.bytes).is_ok_and(|text| !text.contains('\0')) => TEXT.to_owned(),
        _ => BINARY.to_owned(),
    }
}
