//! Runs that calls of other runs began. They are made with their parent's commit; what one must hear of the other is told
//! after the commit that it follows from, in a transaction of its own, and whatever a dead server left untold is found
//! again. Nobody ever locks the states of both.

mod ended;

use answerable_core::agent::AgentSpec;
use answerable_core::budget::Budgets;
use answerable_core::id::{AgentId, RunId, TenantId};
use answerable_core::input::{Content, InputMessage};
use answerable_core::message::Role;
use answerable_core::run::{ChildRow, PinnedAgent, input_text};
use answerable_core::trace::{SpanId, TraceContext, tool_span};
use answerable_ports::Signal;
use chrono::DateTime;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::store_error;
use crate::load::decode;
use crate::runs::{NewRun, OnBusy};
use crate::tx::{SystemTx, TenantTx};
use crate::{Result, Store, StoreError};

/// Runs told of in one round of the sweep.
const SWEPT: i64 = 200;

impl Store {
    /// Tells what a commit left to tell: that the run `ended`, to whoever called it, and to the runs `stopped` that they are
    /// to end. What fails here is found by the sweep. False: something failed.
    pub(crate) async fn children_hear(
        &self,
        tenant: TenantId,
        ended: Option<RunId>,
        stopped: &[RunId],
    ) -> bool {
        let mut all_told = true;
        for run in stopped {
            if let Err(error) = self.child_stop(tenant, *run).await {
                tracing::warn!(run_id = %run, %error, "a run was not told to end yet; it is tried again");
                all_told = false;
            }
        }
        if let Some(run) = ended
            && let Err(error) = self.child_tell(tenant, run).await
        {
            tracing::warn!(run_id = %run, %error, "a run's caller was not told of its end yet; it is tried again");
            all_told = false;
        }
        all_told
    }

    /// Tells what nobody has told for a while; gives how many runs were told of.
    pub(crate) async fn children_sweep(&self) -> Result<u64> {
        let left = self.system().await?.children_left().await?;
        let mut told = 0;
        for (tenant, run, is_over) in left {
            let (tenant, run) = (TenantId(tenant), RunId(run));
            let (ended, stopped) = if is_over { (Some(run), None) } else { (None, Some(run)) };
            told += u64::from(self.children_hear(tenant, ended, stopped.as_slice()).await);
        }
        Ok(told)
    }

    async fn child_stop(&self, tenant: TenantId, run: RunId) -> Result<()> {
        let mut tx = self.working(tenant).await?;
        if let Some(reason) = tx.child_stop_reason(run).await? {
            tx.run_cancel(run, Some(reason)).await?;
            tx.child_mark_stopped(run).await?;
        }
        tx.commit().await
    }

    /// Whoever called it may have ended meanwhile, and have waited for this to be told of itself.
    async fn child_tell(&self, tenant: TenantId, run: RunId) -> Result<()> {
        let mut next = Some(run);
        while let Some(run) = next {
            let mut tx = self.working(tenant).await?;
            next = tx.child_tell(run).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}

impl SystemTx {
    /// Tenant and run of what was left untold, and whether the run has ended. Any of them, if they are many: what fails
    /// again and again is in nobody's way.
    async fn children_left(&mut self) -> Result<Vec<(Uuid, Uuid, bool)>> {
        let rows = sqlx::query!(
            r#"(SELECT tenant_id AS "tenant_id!", run_id AS "run_id!", false AS "is_over!" FROM children
                WHERE stop_at IS NOT NULL AND stopped_at IS NULL AND stop_at < now() - interval '1 second'
                ORDER BY random() LIMIT $1)
               UNION ALL
               (SELECT tenant_id, run_id, true FROM children c
                WHERE ended_at IS NOT NULL AND told_at IS NULL AND ended_at < now() - interval '1 second'
                    AND NOT EXISTS (SELECT FROM run_queue q WHERE q.tenant_id = c.tenant_id AND q.run_id = c.run_id)
                    AND NOT EXISTS (SELECT FROM children b WHERE b.tenant_id = c.tenant_id AND b.parent_run_id = c.run_id
                        AND b.told_at IS NULL)
                ORDER BY random() LIMIT $1)"#,
            SWEPT,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (row.tenant_id, row.run_id, row.is_over)).collect())
    }
}

impl TenantTx {
    /// The agent that a tool calls, in that version or its newest; or why it can't be called.
    pub(crate) async fn called_agent(
        &mut self,
        agent: AgentId,
        version: Option<u32>,
    ) -> Result<std::result::Result<PinnedAgent, String>> {
        let wanted = version.map(|version| i32::try_from(version).unwrap_or(i32::MAX));
        let Some(row) = self.agent_fetch(agent, wanted).await? else {
            return Ok(Err("There is no such agent.".into()));
        };
        if row.archived_at.is_some() {
            return Ok(Err("The agent is archived.".into()));
        }
        let spec: AgentSpec = decode(row.spec, "agent")?;
        let version = u32::try_from(row.version).unwrap_or(0);
        Ok(Ok(PinnedAgent { agent_id: agent, version, spec_hash: row.spec_hash, budgets: spec.budgets }))
    }

    /// Begins a child, in the transaction of the commit in which its parent's call begins. One that is there already is
    /// left.
    pub(crate) async fn child_create(&mut self, parent: RunId, row: &ChildRow) -> Result<()> {
        let run_id = RunId(row.call.0);
        if self.run_exists(run_id).await? {
            return Ok(());
        }
        let (new, workspace) = self.child_new(parent, row).await?;
        let (now, state) = self.run_insert(&new, workspace).await?;
        self.child_insert(parent, run_id).await?;
        if self.input_insert(&new, now, &state).await?.is_err() {
            return Err(StoreError::Broken("a call's input can't be a run's".into()));
        }
        self.queued_announce(&new, now, &state).await?;
        self.announce(Signal::Work);
        self.announce(Signal::Progress(run_id.0));
        Ok(())
    }

    /// A child as its parent has it: the same context, files and trace, for the same people; and a workspace.
    async fn child_new(&mut self, parent: RunId, row: &ChildRow) -> Result<(NewRun, Uuid)> {
        let of = sqlx::query!(
            "SELECT r.context, r.workspace_id, r.trace_id, r.created_by, r.creators, r.policy, r.priority, c.input
             FROM runs r JOIN calls c ON c.tenant_id = r.tenant_id AND c.call_id = $3
             WHERE r.tenant_id = $1 AND r.run_id = $2",
            self.tenant(),
            parent.0,
            row.call.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let span: SpanId = tool_span(parent, row.call, 1);
        let new = NewRun {
            run_id: RunId(row.call.0),
            agent: Some((row.agent.agent_id, i32::try_from(row.agent.version).unwrap_or(i32::MAX))),
            spec_hash: row.agent.spec_hash.clone(),
            thread_id: None,
            on_busy: OnBusy::Queue,
            budgets: row.budgets.clone(),
            messages: vec![told(&of.input)],
            context: of.context,
            metadata: json!({}),
            trace: TraceContext { trace_id: of.trace_id, parent: Some(span), link: None },
            created_by: of.created_by,
            creators: of.creators,
            policy: of.policy,
            priority: of.priority,
            not_before: None,
            deadline: row.deadline.and_then(DateTime::from_timestamp_millis),
            concurrency_key: None,
            origin: None,
            schedule: None,
            depth: row.depth,
            needs: 0,
        };
        Ok((new, of.workspace_id))
    }

    async fn child_insert(&mut self, parent: RunId, run: RunId) -> Result<()> {
        sqlx::query!(
            "INSERT INTO children (tenant_id, run_id, parent_run_id) VALUES ($1, $2, $3)",
            self.tenant(),
            run.0,
            parent.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// A run's parent wants its end.
    pub(crate) async fn child_mark_stop(&mut self, run: RunId, reason: &str) -> Result<()> {
        sqlx::query!(
            "UPDATE children SET stop_at = now(), stop_reason = $3
             WHERE tenant_id = $1 AND run_id = $2 AND stop_at IS NULL",
            self.tenant(),
            run.0,
            reason,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// A run that another one called has ended.
    pub(crate) async fn child_mark_ended(&mut self, run: RunId) -> Result<()> {
        sqlx::query!(
            "UPDATE children SET ended_at = now() WHERE tenant_id = $1 AND run_id = $2 AND ended_at IS NULL",
            self.tenant(),
            run.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// The limits that a run was given when it began.
    pub(crate) async fn given_budgets(&mut self, run: RunId) -> Result<Budgets> {
        let budgets = sqlx::query_scalar!(
            "SELECT budgets FROM runs WHERE tenant_id = $1 AND run_id = $2",
            self.tenant(),
            run.0
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        decode(budgets, "run's limits")
    }

    /// The runs that a run called, and those that these called, and so on, in the order of their ids.
    pub(crate) async fn runs_below(&mut self, run: RunId) -> Result<Vec<Uuid>> {
        sqlx::query_scalar!(
            r#"WITH RECURSIVE below AS (
                   SELECT run_id FROM children WHERE tenant_id = $1 AND parent_run_id = $2
                   UNION
                   SELECT c.run_id FROM below b JOIN children c ON c.tenant_id = $1 AND c.parent_run_id = b.run_id
               )
               SELECT run_id AS "run_id!" FROM below ORDER BY run_id"#,
            self.tenant(),
            run.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Locks the states of these runs, in one order for all who lock several; gives those that are there.
    pub(crate) async fn states_lock(&mut self, runs: &[Uuid]) -> Result<Vec<Uuid>> {
        sqlx::query_scalar!(
            "SELECT run_id FROM run_states WHERE tenant_id = $1 AND run_id = ANY($2) ORDER BY run_id FOR UPDATE",
            self.tenant(),
            runs,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Why a run is to end, if it is and hasn't been told.
    async fn child_stop_reason(&mut self, run: RunId) -> Result<Option<String>> {
        let reason = sqlx::query_scalar!(
            "SELECT stop_reason FROM children
             WHERE tenant_id = $1 AND run_id = $2 AND stop_at IS NOT NULL AND stopped_at IS NULL",
            self.tenant(),
            run.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(reason.map(Option::unwrap_or_default))
    }

    async fn child_mark_stopped(&mut self, run: RunId) -> Result<()> {
        sqlx::query!(
            "UPDATE children SET stopped_at = now() WHERE tenant_id = $1 AND run_id = $2",
            self.tenant(),
            run.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

/// What a call's input says to the agent.
fn told(input: &Value) -> InputMessage {
    let text = input_text(input);
    InputMessage { role: Role::User, content: Content { text, ..Content::default() }, pinned: false }
}
