//! Spans of a run, as they are stored with the events that they tell of.

use answerable_core::id::RunId;
use answerable_core::trace::Span;

use crate::Result;
use crate::error::store_error;
use crate::load::decode;
use crate::tx::TenantTx;

/// A run's trace.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTrace {
    /// 32 hex digits.
    pub trace_id: String,
    /// The newest spans, in the order in which they ended.
    pub spans: Vec<Span>,
    /// Older ones that are not among them.
    pub omitted: u64,
}

impl TenantTx {
    /// The trace of a run, as far as it has come: the newest spans of at most `limit` and `bytes`, and some more where one event
    /// ended several. `None`: there is no such run. Spans go with the journal: of a run whose journal is gone there are none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn trace_fetch(&mut self, run_id: RunId, limit: i64, bytes: i64) -> Result<Option<RunTrace>> {
        let tenant = self.tenant();
        let run = sqlx::query!(
            r#"SELECT trace_id, (SELECT coalesce(sum(json_array_length(spans)), 0)::bigint FROM journal j
                   WHERE j.tenant_id = r.tenant_id AND j.run_id = r.run_id AND j.spans IS NOT NULL) AS "spans!"
               FROM runs r WHERE tenant_id = $1 AND run_id = $2"#,
            tenant,
            run_id.0
        );
        let Some(run) = run.fetch_optional(self.conn()).await.map_err(store_error)? else {
            return Ok(None);
        };
        let rows = sqlx::query_scalar!(
            r#"SELECT spans AS "spans!" FROM (
                   SELECT seq, index, spans,
                       sum(json_array_length(spans)) OVER newest - json_array_length(spans) AS newer,
                       sum(octet_length(spans::text)) OVER newest - octet_length(spans::text) AS newer_bytes
                   FROM journal WHERE tenant_id = $1 AND run_id = $2 AND spans IS NOT NULL
                   WINDOW newest AS (ORDER BY seq DESC, index DESC)
               ) AS told WHERE newer < $3 AND newer_bytes < $4 ORDER BY seq, index"#,
            tenant,
            run_id.0,
            limit,
            bytes,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let mut spans = Vec::new();
        for row in rows {
            spans.extend(decode::<Vec<Span>>(row, "span")?);
        }
        let omitted = u64::try_from(run.spans).unwrap_or(0).saturating_sub(spans.len() as u64);
        Ok(Some(RunTrace { trace_id: run.trace_id, spans, omitted }))
    }
}
