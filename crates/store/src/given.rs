//! What runs are given: messages as they come with requests, with the pictures and documents that they bring.

use std::collections::HashMap;

use answerable_core::FieldError;
use answerable_core::id::{ArtifactId, RunId};
use answerable_core::input::{Content, InputAttachment, Kept};
use answerable_core::json::sha256_hex;
use answerable_core::message::{Message, Part};
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::commit::message_row;
use crate::counts::{Counted, Full};
use crate::error::{as_json, store_error};
use crate::tx::TenantTx;

/// Why contents can't be taken.
pub(crate) enum Misfit {
    /// The place of one among those given, and what is wrong with it, with a pointer from the content on.
    Content(usize, FieldError),
    /// There is no room for what they bring.
    Full(Full),
}

/// What comes with a request, to be kept: each thing once, however often it is sent.
#[derive(Default)]
struct Brought<'a> {
    known: HashMap<(String, String), ArtifactId>,
    new: Vec<New<'a>>,
}

struct New<'a> {
    id: ArtifactId,
    sha256: String,
    media_type: String,
    content: &'a [u8],
}

impl TenantTx {
    /// Writes messages of a run.
    pub(crate) async fn messages_insert(
        &mut self,
        run_id: RunId,
        messages: &[Message],
        at: DateTime<Utc>,
    ) -> Result<()> {
        if messages.is_empty() {
            return Ok(());
        }
        let tenant = self.tenant();
        let rows: Value = messages.iter().map(message_row).collect();
        sqlx::query!(
            "SELECT write_messages($1, $2, $3::text::json, $4)",
            tenant,
            run_id.0,
            as_json(&rows)?,
            at
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// The pieces of contents as they are stored with the messages. What they bring becomes artifacts of the run, and what
    /// they refer to must be the tenant's; otherwise the transaction must not be committed.
    pub(crate) async fn parts_keep(
        &mut self,
        run_id: RunId,
        contents: &[&Content],
    ) -> Result<std::result::Result<Vec<Vec<Part>>, Misfit>> {
        let referred = self.artifacts_known(contents).await?;
        let mut brought = self.brought_before(run_id, contents).await?;
        let mut all = Vec::with_capacity(contents.len());
        for (index, content) in contents.iter().enumerate() {
            let wanted: HashMap<usize, ArtifactId> = content.referred().collect();
            let mut parts = Vec::with_capacity(content.parts.len());
            for (place, part) in content.parts.iter().enumerate() {
                let kept = wanted.get(&place).and_then(|id| referred.get(id));
                match part.stored(kept, |attachment, data| brought.put(attachment, data)) {
                    Ok(part) => parts.push(part),
                    Err(fault) => {
                        return Ok(Err(Misfit::Content(index, fault.under(&format!("/{place}")))));
                    }
                }
            }
            all.push(parts);
        }
        let more: usize = brought.new.iter().map(|new| new.content.len()).sum();
        if more > 0
            && let Err(full) =
                self.room_for(Counted::ArtifactBytes, i64::try_from(more).unwrap_or(i64::MAX)).await?
        {
            return Ok(Err(Misfit::Full(full)));
        }
        self.brought_insert(run_id, &brought.new).await?;
        Ok(Ok(all))
    }

    /// The artifacts that contents refer to, as far as the tenant has them.
    async fn artifacts_known(&mut self, contents: &[&Content]) -> Result<HashMap<ArtifactId, Kept>> {
        let ids: Vec<Uuid> =
            contents.iter().flat_map(|content| content.referred()).map(|(_, id)| id.0).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let tenant = self.tenant();
        let rows = sqlx::query!(
            r#"SELECT artifact_id, media_type, bytes, substring(content FROM 1 FOR $3) AS "head!"
               FROM artifacts WHERE tenant_id = $1 AND artifact_id = ANY($2)"#,
            tenant,
            &ids,
            i32::try_from(Kept::HEAD).unwrap_or(i32::MAX),
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let known = rows.into_iter().map(|row| {
            let bytes = u64::try_from(row.bytes).unwrap_or(u64::MAX);
            (ArtifactId(row.artifact_id), Kept { media_type: row.media_type, bytes, head: row.head })
        });
        Ok(known.collect())
    }

    /// What came with earlier requests for the run. Nothing is brought: nothing is looked for.
    async fn brought_before<'a>(&mut self, run_id: RunId, contents: &[&'a Content]) -> Result<Brought<'a>> {
        if !contents.iter().any(|content| content.brings()) {
            return Ok(Brought::default());
        }
        let tenant = self.tenant();
        let rows = sqlx::query!(
            "SELECT artifact_id, sha256, media_type FROM artifacts
             WHERE tenant_id = $1 AND run_id = $2 AND call_id IS NULL",
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let known = rows.into_iter().map(|row| ((row.sha256, row.media_type), ArtifactId(row.artifact_id)));
        Ok(Brought { known: known.collect(), new: Vec::new() })
    }

    async fn brought_insert(&mut self, run_id: RunId, new: &[New<'_>]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let tenant = self.tenant();
        let ids: Vec<Uuid> = new.iter().map(|new| new.id.0).collect();
        let media_types: Vec<String> = new.iter().map(|new| new.media_type.clone()).collect();
        let hashes: Vec<String> = new.iter().map(|new| new.sha256.clone()).collect();
        let contents: Vec<&[u8]> = new.iter().map(|new| new.content).collect();
        sqlx::query!(
            "INSERT INTO artifacts (tenant_id, artifact_id, run_id, media_type, bytes, sha256, content, created_at)
             SELECT $1, n.id, $2, n.media_type, octet_length(n.content), n.sha256, n.content, clock_timestamp()
             FROM unnest($3::uuid[], $4::text[], $5::text[], $6::bytea[]) AS n(id, media_type, sha256, content)",
            tenant,
            run_id.0,
            &ids,
            &media_types,
            &hashes,
            &contents as &[&[u8]],
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

impl<'a> Brought<'a> {
    fn put(&mut self, attachment: &InputAttachment, content: &'a [u8]) -> ArtifactId {
        let (sha256, media_type) = (sha256_hex(content), attachment.media_type.clone());
        *self.known.entry((sha256.clone(), media_type.clone())).or_insert_with(|| {
            let id = ArtifactId(Uuid::now_v7());
            self.new.push(New { id, sha256, media_type, content });
            id
        })
    }
}
