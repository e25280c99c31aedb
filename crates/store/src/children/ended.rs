//! A run that another one called has ended: its caller hears of it, or, if it doesn't wait any more, the ledger alone.

use answerable_core::id::{CallId, LedgerId, RunId};
use answerable_core::ledger::Effect;
use answerable_core::run::{ChildEnd, RunState, Stage, Status, StopReason};
use answerable_core::tool::Output;
use answerable_ports::commit::InboundBody;
use answerable_ports::{LateOutcome, Signal};

use crate::Result;
use crate::error::store_error;
use crate::ledger::asking;
use crate::load::read_state;
use crate::tx::TenantTx;

/// A run that has ended, and who called it.
struct Ended {
    parent: Option<RunId>,
    call: CallId,
    status: Status,
    reason: StopReason,
    content: String,
    state: RunState,
    effect: Effect,
}

impl TenantTx {
    /// Tells of a run's end, once. Does nothing for a run that nobody called, or that isn't over. Gives whoever called it, if
    /// that one has ended before.
    pub(super) async fn child_tell(&mut self, run: RunId) -> Result<Option<RunId>> {
        let Some(ended) = self.child_ended(run).await? else { return Ok(None) };
        // Whoever touches a run locks its state first.
        let parent = match ended.parent {
            Some(parent) => self.run_lock(parent).await?.map(|locked| (parent, locked)),
            None => None,
        };
        if !self.child_mark_told(run).await? {
            return Ok(None);
        }
        let Some((caller, parent)) = parent else { return Ok(None) };
        if ended.effect != Effect::None {
            self.entry_may_write(ended.call).await?;
        }
        let waits = parent.state.call(ended.call).map(|call| matches!(call.stage, Stage::Child { .. }));
        if !parent.state.is_ended() && waits == Some(true) {
            let body = ended.body();
            self.inbox_add(caller, &body, false).await?;
            return Ok(None);
        }
        let late = ended.late();
        // A person who is asked whether it happened is told by the entry of the run itself.
        let in_part = late.outcome.effect != Effect::None && ended.status != Status::Finished;
        if !(in_part && asking(&parent.state, ended.call.0).is_some()) {
            self.late_outcome(caller, &late).await?;
        }
        self.announce(Signal::Progress(caller.0));
        Ok(parent.state.is_ended().then_some(caller))
    }

    /// What is to be told of a run, if its caller hasn't heard it, nothing of it is out any more, and all is known of the runs
    /// that it called.
    async fn child_ended(&mut self, run: RunId) -> Result<Option<Ended>> {
        let row = sqlx::query!(
            r#"SELECT c.parent_run_id, r.final_answer, s.state, l.unclear AS "unclear!", l.made AS "made!"
               FROM children c
               JOIN runs r ON r.tenant_id = c.tenant_id AND r.run_id = c.run_id
               JOIN run_states s ON s.tenant_id = c.tenant_id AND s.run_id = c.run_id
               CROSS JOIN LATERAL (
                   SELECT coalesce(bool_or(status IN ('started', 'uncertain')), false) AS unclear,
                       coalesce(bool_or(side_effect = 'committed'), false) AS made
                   FROM ledger e WHERE e.tenant_id = c.tenant_id AND e.run_id = c.run_id AND e.writes) l
               WHERE c.tenant_id = $1 AND c.run_id = $2 AND c.told_at IS NULL AND r.finished_at IS NOT NULL
                   AND NOT EXISTS (SELECT FROM run_queue q WHERE q.tenant_id = c.tenant_id AND q.run_id = c.run_id)
                   AND NOT EXISTS (SELECT FROM children b WHERE b.tenant_id = c.tenant_id AND b.parent_run_id = c.run_id
                       AND b.told_at IS NULL)"#,
            self.tenant(),
            run.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let state = read_state(row.state)?;
        let Some(end) = state.end.clone() else { return Ok(None) };
        let content = row.final_answer.unwrap_or_else(|| format!("It was cancelled: {}.", end.detail));
        Ok(Some(Ended {
            parent: row.parent_run_id.map(RunId),
            call: CallId(run.0),
            status: state.status,
            reason: end.reason,
            content,
            state,
            effect: match (row.unclear, row.made) {
                (true, _) => Effect::Possible,
                (false, true) => Effect::Committed,
                (false, false) => Effect::None,
            },
        }))
    }

    /// False: somebody told it before.
    async fn child_mark_told(&mut self, run: RunId) -> Result<bool> {
        let done = sqlx::query!(
            "UPDATE children SET told_at = now() WHERE tenant_id = $1 AND run_id = $2 AND told_at IS NULL",
            self.tenant(),
            run.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(done.rows_affected() == 1)
    }

    /// A call that was said to change nothing has changed something: its entry must be able to say so.
    async fn entry_may_write(&mut self, call: CallId) -> Result<()> {
        sqlx::query!(
            "UPDATE ledger SET writes = true, side_effect = 'possible',
                 status = CASE WHEN status = 'started' THEN status ELSE 'uncertain' END,
                 error_code = CASE WHEN status = 'started' THEN error_code ELSE 'SIDE_EFFECT_UNCERTAIN' END
             WHERE tenant_id = $1 AND ledger_id = $2 AND NOT writes",
            self.tenant(),
            call.0,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

impl Ended {
    fn body(&self) -> InboundBody {
        InboundBody::ChildEnded {
            call_id: self.call,
            status: self.status,
            reason: self.reason,
            content: self.content.clone(),
            used: self.state.used.clone(),
            ran_ms: self.state.clock.ran_ms,
            effect: self.effect,
        }
    }

    /// For the ledger alone.
    fn late(&self) -> LateOutcome {
        let end = ChildEnd {
            status: self.status,
            reason: self.reason,
            output: Output::plain(self.content.clone()),
            used: self.state.used.clone(),
            ran_ms: self.state.clock.ran_ms,
            effect: self.effect,
        };
        LateOutcome {
            ledger_id: LedgerId(self.call.0),
            attempts: 1,
            outcome: end.outcome(true),
            content: (self.status == Status::Finished).then(|| self.content.clone()),
            artifacts: Vec::new(),
        }
    }
}
