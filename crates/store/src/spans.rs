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
    /// The trace of a run, as far as it has come; at most `limit` spans, and some more where one event ended several.
    /// `None`: there is no such run. Spans go with the journal: of a run whose journal is gone there are none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn trace_fetch(&mut self, run_id: RunId, limit: u64) -> Result<Option<RunTrace>> {
        let tenant = self.tenant();
        let run = sqlx::query_scalar!(
            "SELECT trace_id FROM runs WHERE tenant_id = $1 AND run_id = $2",
            tenant,
            run_id.0
        );
        let Some(trace_id) = run.fetch_optional(self.conn()).await.map_err(store_error)? else {
            return Ok(None);
        };
        let rows = sqlx::query!(
            r#"SELECT spans AS "spans!", json_array_length(spans)::bigint AS "count!",
                   sum(json_array_length(spans)) OVER (ORDER BY seq DESC, index DESC)::bigint AS "through!"
               FROM journal WHERE tenant_id = $1 AND run_id = $2 AND spans IS NOT NULL ORDER BY seq, index"#,
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let (mut spans, mut omitted) = (Vec::new(), 0);
        for row in rows {
            if count(row.through) - count(row.count) < limit {
                spans.extend(decode::<Vec<Span>>(row.spans, "span")?);
            } else {
                omitted += count(row.count);
            }
        }
        Ok(Some(RunTrace { trace_id, spans, omitted }))
    }
}
