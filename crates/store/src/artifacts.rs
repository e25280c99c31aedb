//! Artifacts: outputs that were kept whole, and what came with messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use answerable_core::id::{ArtifactId, RunId};
use answerable_ports::ArtifactsKept;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// An artifact without its bytes (contract, "Shapes").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRecord {
    /// Its id.
    pub artifact_id: Uuid,
    /// Run.
    pub run_id: Uuid,
    /// The call that made it; `None`: it came with a message.
    pub call_id: Option<Uuid>,
    /// What it is.
    pub media_type: String,
    /// Length.
    pub bytes: i64,
    /// `sha256:` and the hex SHA-256 of the bytes.
    pub sha256: String,
    /// When.
    pub created_at: DateTime<Utc>,
}

impl TenantTx {
    /// A run's artifacts after the one of id `after`, oldest first.
    ///
    /// # Errors
    /// The database is away.
    pub async fn artifact_list(
        &mut self,
        run_id: RunId,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<ArtifactRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            ArtifactRecord,
            "SELECT artifact_id, run_id, call_id, media_type, bytes, sha256, created_at FROM artifacts
             WHERE tenant_id = $1 AND run_id = $2 AND ($3::uuid IS NULL OR (created_at, artifact_id) > (
                 SELECT created_at, artifact_id FROM artifacts WHERE tenant_id = $1 AND artifact_id = $3))
             ORDER BY created_at, artifact_id LIMIT $4",
            tenant,
            run_id.0,
            after,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// One artifact.
    ///
    /// # Errors
    /// The database is away.
    pub async fn artifact_fetch(&mut self, artifact_id: ArtifactId) -> Result<Option<ArtifactRecord>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            ArtifactRecord,
            "SELECT artifact_id, run_id, call_id, media_type, bytes, sha256, created_at FROM artifacts
             WHERE tenant_id = $1 AND artifact_id = $2",
            tenant,
            artifact_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// An artifact's media type and bytes.
    ///
    /// # Errors
    /// The database is away.
    pub async fn artifact_content(&mut self, artifact_id: ArtifactId) -> Result<Option<(String, Bytes)>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            "SELECT media_type, content FROM artifacts WHERE tenant_id = $1 AND artifact_id = $2",
            tenant,
            artifact_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| (row.media_type, row.content.into())))
    }

    /// How many artifacts a run has, and their bytes.
    pub(crate) async fn artifacts_kept(&mut self, run_id: RunId) -> Result<ArtifactsKept> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT count(*) AS "number!", coalesce(sum(bytes), 0)::bigint AS "bytes!" FROM artifacts
               WHERE tenant_id = $1 AND run_id = $2"#,
            tenant,
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let unsigned = |number| u64::try_from(number).unwrap_or_default();
        Ok(ArtifactsKept { number: unsigned(row.number), bytes: unsigned(row.bytes) })
    }

    /// What those of these artifacts hold that are there.
    pub(crate) async fn artifacts_load(
        &mut self,
        ids: &[ArtifactId],
    ) -> Result<BTreeMap<ArtifactId, Arc<[u8]>>> {
        let tenant = self.tenant();
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query!(
            "SELECT artifact_id, content FROM artifacts WHERE tenant_id = $1 AND artifact_id = ANY($2)",
            tenant,
            &ids,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (ArtifactId(row.artifact_id), row.content.into())).collect())
    }

    /// The hashes of those of these artifacts that are there, as [`ArtifactRecord::sha256`].
    ///
    /// # Errors
    /// The database is away.
    pub async fn artifact_hashes(&mut self, ids: &[ArtifactId]) -> Result<BTreeMap<ArtifactId, String>> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let tenant = self.tenant();
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query!(
            "SELECT artifact_id, sha256 FROM artifacts WHERE tenant_id = $1 AND artifact_id = ANY($2)",
            tenant,
            &ids,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (ArtifactId(row.artifact_id), row.sha256)).collect())
    }
}
