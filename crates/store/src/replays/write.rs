//! The rows of a replay that aren't those of a commit.

use answerable_core::id::{ApprovalId, RunId};
use answerable_core::trace::{SpanId, SpanLink};
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{NewReplay, ReplayBase, after_step};
use crate::Result;
use crate::error::{as_json, store_error};
use crate::tx::TenantTx;

impl TenantTx {
    /// The run, its first state and its first event. It has no place in the queue.
    pub(super) async fn replay_insert(
        &mut self,
        base: &ReplayBase,
        new: &NewReplay,
    ) -> Result<DateTime<Utc>> {
        let tenant = self.tenant();
        let first = &new.replayed.first;
        let difference = new.difference.as_ref().map(as_json).transpose()?;
        sqlx::query_scalar!(
            r#"WITH moment AS (
                   SELECT date_trunc('milliseconds', clock_timestamp()) AS now
               ), made AS (
                   INSERT INTO runs (tenant_id, run_id, agent_id, agent_version, spec_hash, workspace_id, context, metadata,
                       budgets, trace_id, trace_parent, trace_link, created_by, deadline, created_at, origin_kind,
                       origin_run_id, origin_step, lineage_length, first_difference, creators, policy)
                   SELECT $1, $2, $3, $4, $5, $6, $7::text::json, $8, $9::text::json, $10, $11, $12, $13, $14, now, 'replay',
                       $15, $16, $17, $18::text::json, $21, $22::text::json FROM moment
               ), stated AS (
                   INSERT INTO run_states (tenant_id, run_id, event_seq, state) VALUES ($1, $2, 1, $19::text::json)
               ), told AS (
                   INSERT INTO events (tenant_id, run_id, seq, event_id, type, data, at)
                   SELECT $1, $2, 1, $20, 'run.queued', '{}', now FROM moment
               )
               SELECT now AS "now!" FROM moment"#,
            tenant,
            new.run_id.0,
            new.agent.map(|(id, _)| id.0),
            new.agent.map(|(_, version)| version),
            new.spec_hash,
            Uuid::now_v7(),
            as_json(&new.context)?,
            new.metadata,
            as_json(&first.budgets)?,
            new.trace.trace_id,
            new.trace.parent.as_ref().map(SpanId::as_str),
            new.trace.link.as_ref().map(SpanLink::traceparent),
            new.created_by,
            first.deadline.and_then(DateTime::from_timestamp_millis),
            base.run_id.0,
            after_step(first),
            i32::try_from(base.lineage.len()).unwrap_or(i32::MAX),
            difference,
            as_json(first)?,
            Uuid::now_v7(),
            &new.creators,
            base.recorded.begin.policy.as_ref().map(as_json).transpose()?,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Decides approvals as people decided them then. `decided`: theirs, and the replay's.
    pub(super) async fn words_copy(
        &mut self,
        run_id: RunId,
        decided: &[(ApprovalId, ApprovalId)],
    ) -> Result<()> {
        let tenant = self.tenant();
        let then: Vec<Uuid> = decided.iter().map(|(then, _)| then.0).collect();
        let now: Vec<Uuid> = decided.iter().map(|(_, now)| now.0).collect();
        for words in [
            sqlx::query!(
                "UPDATE approvals a SET status = o.status, votes = o.votes, decision = o.decision,
                     edited_input = o.edited_input, approved_hash = o.approved_hash, decided_at = a.created_at,
                     decided_by = o.decided_by,
                     used_at = CASE WHEN a.voided_at IS NULL THEN o.used_at END
                 FROM unnest($3::uuid[], $4::uuid[]) AS d(recorded, replayed)
                 JOIN approvals o ON o.tenant_id = $1 AND o.approval_id = d.recorded AND o.status <> 'pending'
                 WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.approval_id = d.replayed AND a.status = 'pending'",
                tenant,
                run_id.0,
                &then,
                &now,
            ),
            // More budget, which a change of limits gave.
            sqlx::query!(
                "UPDATE approvals SET decision = 'approve'
                 WHERE tenant_id = $1 AND run_id = $2 AND status = 'approved' AND decision IS NULL",
                tenant,
                run_id.0,
            ),
        ] {
            words.execute(self.conn()).await.map_err(store_error)?;
        }
        Ok(())
    }
}
