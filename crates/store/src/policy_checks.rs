//! What a call would be judged by, for explaining it: read as it is stored, whether or not that makes sense.

use answerable_core::agent::AgentSpec;
use answerable_core::catalog::with_tools;
use answerable_core::id::RunId;
use answerable_core::permission::Grant;
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::grants::StoredGrant;
use crate::load::decode;
use crate::tx::TenantTx;

/// Grants that are told of though they can't cover the call.
const MOST_OTHERS: i64 = 100;

/// A run, as far as its calls are judged by it.
#[derive(Debug, Clone)]
pub struct JudgedRun {
    /// Its agent, with the tools that were listed for it last.
    pub agent: AgentSpec,
    /// The stored agent, if it has one.
    pub agent_id: Option<Uuid>,
    /// Its thread.
    pub thread_id: Option<Uuid>,
    /// Its context.
    pub context: Value,
    /// The policy that it was started with, as it is stored.
    pub policy: Option<Value>,
    /// Who started it.
    pub creators: Vec<String>,
}

/// What grants are of: they cover what is in their scope.
#[derive(Debug, Clone, Copy, Default)]
pub struct Covered {
    /// A run.
    pub run: Option<Uuid>,
    /// A thread.
    pub thread: Option<Uuid>,
    /// A stored agent.
    pub agent: Option<Uuid>,
}

impl TenantTx {
    /// A run, as far as its calls are judged by it; `None`: no such run.
    ///
    /// # Errors
    /// The database is away, or its agent makes no sense.
    pub async fn judged_run(&mut self, run_id: RunId) -> Result<Option<JudgedRun>> {
        let row = sqlx::query!(
            // A run of before creators were kept has the one who started it.
            r#"SELECT r.agent_id, r.thread_id, r.context, r.policy, a.spec,
                 CASE WHEN r.creators = '{}' THEN ARRAY[r.created_by] ELSE r.creators END AS "creators!"
             FROM runs r JOIN agent_specs a ON a.tenant_id = r.tenant_id AND a.spec_hash = r.spec_hash
             WHERE r.tenant_id = $1 AND r.run_id = $2"#,
            self.tenant(),
            run_id.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let spec = decode::<AgentSpec>(row.spec, "agent")?;
        Ok(Some(JudgedRun {
            agent: with_tools(&spec, &self.run_tools_fetch(run_id).await?),
            agent_id: row.agent_id,
            thread_id: row.thread_id,
            context: row.context,
            policy: row.policy,
            creators: row.creators,
        }))
    }

    /// Remembered approvals of a tool, in the order in which they are asked, those that have expired last: all that may cover
    /// the call, and the newest of those that have expired or are of another input. With them, how many there are.
    ///
    /// # Errors
    /// The database is away.
    pub async fn grants_of_tool(
        &mut self,
        of: Covered,
        tool_name: &str,
        input_hash: &str,
    ) -> Result<(Vec<Grant>, usize)> {
        let rows = sqlx::query!(
            r#"WITH known AS (
                   SELECT grant_id, ord, input_hash, expires_at, created_by, deciders, decider_keys, max_risk,
                       coalesce(expires_at <= now(), false) AS expired, coalesce(input_hash <> $7, false) AS other
                   FROM grants
                   WHERE tenant_id = $1 AND tool_name = $5 AND revoked_at IS NULL
                     AND ((scope = 'run' AND scope_id = $2) OR (scope = 'thread' AND scope_id = $3)
                       OR (scope = 'agent' AND scope_id = $4) OR scope = 'tenant')
               ), others AS (SELECT * FROM known WHERE expired OR other ORDER BY expired, ord DESC LIMIT $6)
               SELECT grant_id AS "grant_id!", input_hash, expires_at, created_by AS "created_by!", deciders AS "deciders!",
                   decider_keys AS "decider_keys!: Vec<Option<Uuid>>", max_risk AS "max_risk!",
                   (SELECT count(*) FROM known) AS "known!"
               FROM (SELECT * FROM known WHERE NOT (expired OR other) UNION ALL SELECT * FROM others) told
               ORDER BY expired, ord"#,
            self.tenant(),
            of.run,
            of.thread,
            of.agent,
            tool_name,
            MOST_OTHERS,
            input_hash,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let known = rows.first().map_or(0, |row| usize::try_from(row.known).unwrap_or_default());
        let stored = rows.into_iter().map(|row| StoredGrant {
            grant_id: row.grant_id,
            tool_name: tool_name.to_owned(),
            input_hash: row.input_hash,
            expires_at: row.expires_at,
            created_by: row.created_by,
            deciders: row.deciders,
            decider_keys: row.decider_keys,
            max_risk: row.max_risk,
        });
        Ok((self.grants_read(stored.collect()).await?, known))
    }
}
