//! What can be changed of a live run from outside: its limits, its metadata, what it is told.

use answerable_core::agent::AgentSpec;
use answerable_core::audit::Action;
use answerable_core::budget::{BudgetPatch, below_used, raised};
use answerable_core::id::{ApprovalId, MessageId, RunId};
use answerable_core::input::Content;
use answerable_core::message::{Message, Role};
use answerable_core::run::{RunState, VERSION_OF_PARTS};
use answerable_core::{FieldError, Millis};
use answerable_ports::commit::{DecisionWord, InboundBody};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sqlx::types::Json;
use uuid::Uuid;

use crate::Result;
use crate::counts::Full;
use crate::error::store_error;
use crate::given::Misfit;
use crate::inbox::MAX_WAITING;
use crate::load::decode;
use crate::run_view::with_patches;
use crate::tx::TenantTx;

/// Keys of metadata that a run may have.
const MAX_METADATA: usize = 64;

/// A change of a run.
#[derive(Debug, Clone, Default)]
pub struct RunPatch {
    /// New limits.
    pub budgets: Option<BudgetPatch>,
    /// Keys to set, and those to remove (null).
    pub metadata: Option<Map<String, Value>>,
}

/// Who changes something, and what they may.
#[derive(Debug, Clone)]
pub struct Changer {
    /// Who.
    pub by: String,
    /// They may raise limits above the agent's.
    pub is_admin: bool,
}

/// Why a run isn't changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRefused {
    /// There is no such run.
    NotFound,
    /// It has ended.
    Ended,
    /// Limits above the agent's are an admin's.
    AboveAgent(Vec<&'static str>),
    /// What is asked for can't be.
    Invalid(Vec<FieldError>),
    /// Too much waits for it already.
    InboxFull,
    /// The tenant has as much as it may have.
    Full(Full),
}

/// A change, or why there is none.
pub type Changed<T> = std::result::Result<T, ChangeRefused>;

impl TenantTx {
    /// Changes a run's limits and metadata, both or none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_patch(
        &mut self,
        run_id: RunId,
        patch: &RunPatch,
        changer: &Changer,
    ) -> Result<Changed<()>> {
        let Some(locked) = self.run_lock(run_id).await? else { return Ok(Err(ChangeRefused::NotFound)) };
        if let Some(budgets) = &patch.budgets {
            let asked = match self.budget_allowed(run_id, &locked.state, locked.at, budgets, changer).await? {
                Ok(asked) => asked,
                Err(refused) => return Ok(Err(refused)),
            };
            if let Some(approval) = asked {
                self.approval_follow(approval, DecisionWord::Approve, &changer.by).await?;
            }
            let body = InboundBody::Budget { patch: budgets.clone(), by: changer.by.clone() };
            self.inbox_add(run_id, &body, false).await?;
        }
        if let Some(changes) = &patch.metadata
            && let Err(refused) = self.metadata_change(run_id, changes).await?
        {
            return Ok(Err(refused));
        }
        let names = patch.metadata.as_ref().map(|changes| changes.keys().collect::<Vec<_>>());
        if names.is_some() || patch.budgets.is_some() {
            self.act(Action::RunUpdate, run_id, json!({"budgets": patch.budgets, "metadata": names}));
        }
        Ok(Ok(()))
    }

    /// Whether the limits may be changed so. Gives the approval that asks for more, if this is enough for it.
    async fn budget_allowed(
        &mut self,
        run_id: RunId,
        state: &RunState,
        at: Millis,
        patch: &BudgetPatch,
        changer: &Changer,
    ) -> Result<Changed<Option<ApprovalId>>> {
        if state.is_ended() {
            return Ok(Err(ChangeRefused::Ended));
        }
        if self.inbox_count(run_id).await?.0 >= MAX_WAITING {
            return Ok(Err(ChangeRefused::InboxFull));
        }
        let (agent, waiting) = self.budget_facts(run_id).await?;
        if !changer.is_admin {
            // Against the agent's own limits, so that what an admin raised before is not held against this change; and of a
            // run that another one called against what that one gave it.
            let most = if state.depth > 0 { self.given_budgets(run_id).await? } else { agent.budgets };
            let above = raised(&most, &patch.apply(&most));
            if !above.is_empty() {
                return Ok(Err(ChangeRefused::AboveAgent(above)));
            }
        }
        let ahead = ahead(state, waiting);
        let wanted = patch.apply(&ahead.budgets);
        let faults = below(&below_used(&wanted, &state.used, state.elapsed_ms(at)), patch);
        if !faults.is_empty() {
            return Ok(Err(ChangeRefused::Invalid(faults)));
        }
        Ok(Ok(ahead.budget_ask.filter(|_| ahead.is_enough(patch)).map(|ask| ask.approval_id)))
    }

    /// The run's agent, and changes of its limits that wait.
    pub(crate) async fn budget_facts(&mut self, run_id: RunId) -> Result<(AgentSpec, Vec<BudgetPatch>)> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT a.spec, (SELECT json_agg(i.body -> 'Budget' -> 'patch' ORDER BY i.number) FROM inbox i
                   WHERE i.tenant_id = r.tenant_id AND i.run_id = r.run_id AND (i.body -> 'Budget') IS NOT NULL
                   ) AS "patches: Json<Vec<BudgetPatch>>"
               FROM runs r JOIN agent_specs a ON a.tenant_id = r.tenant_id AND a.spec_hash = r.spec_hash
               WHERE r.tenant_id = $1 AND r.run_id = $2"#,
            tenant,
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok((decode(row.spec, "agent")?, row.patches.map(|patches| patches.0).unwrap_or_default()))
    }

    async fn metadata_change(&mut self, run_id: RunId, changes: &Map<String, Value>) -> Result<Changed<()>> {
        let tenant = self.tenant();
        let known = sqlx::query_scalar!(
            "SELECT metadata FROM runs WHERE tenant_id = $1 AND run_id = $2 FOR NO KEY UPDATE",
            tenant,
            run_id.0,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let mut metadata = known.as_object().cloned().unwrap_or_default();
        for (name, value) in changes {
            match value {
                Value::Null => drop(metadata.remove(name)),
                value => drop(metadata.insert(name.clone(), value.clone())),
            }
        }
        if metadata.len() > MAX_METADATA {
            let message = format!("a run has {MAX_METADATA} keys of metadata at most");
            return Ok(Err(ChangeRefused::Invalid(vec![FieldError::new("/metadata", message)])));
        }
        sqlx::query!(
            "UPDATE runs SET metadata = $3 WHERE tenant_id = $1 AND run_id = $2",
            tenant,
            run_id.0,
            Value::Object(metadata),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(Ok(()))
    }

    /// Tells a live run something; it joins the context of its next step. Gives the message, which has no place yet, and
    /// its time. Pointers of faults begin with `/content`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn run_steer(
        &mut self,
        run_id: RunId,
        content: &Content,
        pinned: bool,
    ) -> Result<Changed<(Message, DateTime<Utc>)>> {
        let Some(locked) = self.run_lock(run_id).await? else { return Ok(Err(ChangeRefused::NotFound)) };
        if locked.state.is_ended() {
            return Ok(Err(ChangeRefused::Ended));
        }
        let (waiting, cancelled) = self.inbox_count(run_id).await?;
        if cancelled {
            return Ok(Err(ChangeRefused::Ended));
        }
        if waiting >= MAX_WAITING {
            return Ok(Err(ChangeRefused::InboxFull));
        }
        let parts = match self.parts_keep(run_id, &[content]).await? {
            Ok(parts) => parts.concat(),
            Err(Misfit::Content(_, fault)) => {
                return Ok(Err(ChangeRefused::Invalid(vec![fault.under("/content")])));
            }
            Err(Misfit::Full(full)) => return Ok(Err(ChangeRefused::Full(full))),
        };
        let text = Message::text(MessageId(Uuid::now_v7()), 0, Role::User, &content.text);
        let message = Message { parts, pinned, ..text };
        let (message_id, content, parts) = (message.id, message.content.clone(), message.parts.clone());
        if pinned || !parts.is_empty() {
            self.queue_needs(run_id, VERSION_OF_PARTS).await?;
        }
        self.inbox_add(run_id, &InboundBody::Steer { message_id, content, parts, pinned }, false).await?;
        Ok(Ok((message, DateTime::from_timestamp_millis(locked.at).unwrap_or_default())))
    }
}

impl TenantTx {
    /// What waits for a run is understood only by servers of that version of the state and newer ones.
    async fn queue_needs(&mut self, run_id: RunId, version: u16) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "UPDATE run_queue SET needs = greatest(needs, $3) WHERE tenant_id = $1 AND run_id = $2",
            tenant,
            run_id.0,
            i16::try_from(version).unwrap_or(i16::MAX),
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }
}

/// The state as it will be once the changes of limits that wait are taken in.
pub(crate) fn ahead(state: &RunState, waiting: Vec<BudgetPatch>) -> RunState {
    RunState { budgets: with_patches(&state.budgets, waiting), ..state.clone() }
}

/// Faults of those limits that the change names; others were below what is used before.
pub(crate) fn below(names: &[&'static str], patch: &BudgetPatch) -> Vec<FieldError> {
    let named = serde_json::to_value(patch).unwrap_or_default();
    let fault =
        |name: &&str| FieldError::new(format!("/budgets/{name}"), "is below what the run has used already");
    names.iter().filter(|name| named.get(**name).is_some()).map(fault).collect()
}
