//! Reading files' rows.

use answerable_core::workspace::FilePath;
use answerable_ports::{BlobHash, FileAt, StoreError};
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// A file's row.
pub(super) struct FileRow {
    pub(super) path: String,
    pub(super) version: i64,
    pub(super) sha256: Vec<u8>,
    pub(super) bytes: i64,
    pub(super) media_type: String,
    pub(super) updated_at: DateTime<Utc>,
    pub(super) updated_by: String,
}

impl TryFrom<FileRow> for FileAt {
    type Error = StoreError;

    fn try_from(row: FileRow) -> Result<Self> {
        Ok(Self {
            path: read_path(&row.path)?,
            version: row.version,
            bytes: u64::try_from(row.bytes).unwrap_or(0),
            hash: read_hash(&row.sha256)?,
            media_type: row.media_type,
            updated_at: row.updated_at,
            updated_by: row.updated_by,
        })
    }
}

pub(super) fn read_path(text: &str) -> Result<FilePath> {
    FilePath::parse(text).map_err(|fault| StoreError::Broken(format!("a stored path is none: {fault}")))
}

pub(super) fn read_hash(bytes: &[u8]) -> Result<BlobHash> {
    bytes.try_into().map(BlobHash).map_err(|_| StoreError::Broken("a stored hash has another length".into()))
}

impl TenantTx {
    pub(super) async fn workspace_exists(&mut self, workspace: Uuid) -> Result<bool> {
        let tenant = self.tenant();
        sqlx::query_scalar!(r#"SELECT workspace_is_somebodys($1, $2) AS "is!""#, tenant, workspace)
            .fetch_one(self.conn())
            .await
            .map_err(store_error)
    }

    pub(super) async fn file_fetch(&mut self, workspace: Uuid, path: &FilePath) -> Result<Option<FileAt>> {
        let tenant = self.tenant();
        let row = sqlx::query_as!(
            FileRow,
            "SELECT path, version, sha256, bytes, media_type, updated_at, updated_by FROM workspace_files
             WHERE tenant_id = $1 AND workspace_id = $2 AND path = $3",
            tenant,
            workspace,
            path.as_str(),
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        row.map(FileAt::try_from).transpose()
    }

    pub(super) async fn file_list(
        &mut self,
        workspace: Uuid,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<FileAt>> {
        let tenant = self.tenant();
        let rows = sqlx::query_as!(
            FileRow,
            "SELECT path, version, sha256, bytes, media_type, updated_at, updated_by FROM workspace_files
             WHERE tenant_id = $1 AND workspace_id = $2 AND path >= $3 AND starts_with(path, $3)
                 AND ($4::text IS NULL OR path > $4)
             ORDER BY path LIMIT $5",
            tenant,
            workspace,
            prefix,
            after,
            i64::try_from(limit).unwrap_or(i64::MAX),
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        rows.into_iter().map(FileAt::try_from).collect()
    }
}
