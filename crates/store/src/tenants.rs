//! Tenants, as the operator sees them.

use answerable_core::audit::Action;
use answerable_core::id::TenantId;
use answerable_ports::Signal;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::Result;
use crate::conn::Conn;
use crate::error::store_error;
use crate::tx::{SystemTx, TenantTx};

/// A tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRow {
    /// Its id; newer ones are greater.
    pub tenant_id: Uuid,
    /// For people.
    pub name: String,
    /// What is limited, by name.
    pub quotas: Value,
    /// Its runs stand in their callers' traces; else beside them, with a link.
    pub trust_traceparent: bool,
    /// It is served nothing and worked on nothing since then.
    pub suspended_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// What every request must know of its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantFacts {
    /// The tenant.
    pub tenant_id: TenantId,
    /// It is served nothing.
    pub suspended: bool,
    /// Its quota of requests.
    pub max_requests_per_minute: Option<u64>,
}

impl TenantRow {
    /// What the operator says of it.
    fn facts(&self) -> Value {
        json!({"name": self.name, "quotas": self.quotas, "trust_traceparent": self.trust_traceparent})
    }
}

impl SystemTx {
    /// Makes a tenant. Quotas that are null are no limits.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_create(
        &mut self,
        name: &str,
        quotas: &Map<String, Value>,
        trust_traceparent: bool,
    ) -> Result<TenantRow> {
        let row = sqlx::query_as!(
            TenantRow,
            "INSERT INTO tenants (tenant_id, name, quotas, trust_traceparent)
             VALUES ($1, $2, jsonb_strip_nulls($3), $4)
             RETURNING tenant_id, name, quotas, trust_traceparent, suspended_at, created_at",
            Uuid::now_v7(),
            name,
            Value::Object(quotas.clone()),
            trust_traceparent,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let tenant = TenantId(row.tenant_id);
        self.act_on(tenant, Action::TenantCreate, tenant, row.facts());
        Ok(row)
    }

    /// Tenants, newest first, of ids before `before`.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_list(&mut self, before: Option<Uuid>, limit: i64) -> Result<Vec<TenantRow>> {
        sqlx::query_as!(
            TenantRow,
            "SELECT tenant_id, name, quotas, trust_traceparent, suspended_at, created_at FROM tenants
             WHERE $1::uuid IS NULL OR tenant_id < $1 ORDER BY tenant_id DESC LIMIT $2",
            before,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// A tenant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_fetch(&mut self, tenant: TenantId) -> Result<Option<TenantRow>> {
        sqlx::query_as!(
            TenantRow,
            "SELECT tenant_id, name, quotas, trust_traceparent, suspended_at, created_at FROM tenants WHERE tenant_id = $1",
            tenant.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// What every request must know of a tenant; `None`: there is no such tenant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_facts(&mut self, tenant: TenantId) -> Result<Option<TenantFacts>> {
        let row = sqlx::query!(
            r#"SELECT suspended_at IS NOT NULL AS "suspended!",
                   (quotas ->> 'max_requests_per_minute')::bigint AS max_requests
               FROM tenants WHERE tenant_id = $1"#,
            tenant.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| TenantFacts {
            tenant_id: tenant,
            suspended: row.suspended,
            max_requests_per_minute: row.max_requests.and_then(|max| u64::try_from(max).ok()),
        }))
    }

    pub(crate) async fn tenant_exists(&mut self, tenant: TenantId) -> Result<bool> {
        sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM tenants WHERE tenant_id = $1) AS "exists!""#,
            tenant.0
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// A tenant, locked against other changes and its deletion.
    pub(crate) async fn tenant_lock(&mut self, tenant: TenantId) -> Result<Option<TenantRow>> {
        sqlx::query_as!(
            TenantRow,
            "SELECT tenant_id, name, quotas, trust_traceparent, suspended_at, created_at FROM tenants WHERE tenant_id = $1
             FOR NO KEY UPDATE",
            tenant.0,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)
    }

    /// Changes a tenant: name and trust if they are given; quotas given are set, null lifts a limit, others stay.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_update(
        &mut self,
        tenant: TenantId,
        name: Option<&str>,
        quotas: &Map<String, Value>,
        trust_traceparent: Option<bool>,
    ) -> Result<Option<TenantRow>> {
        self.announce(Signal::Keys);
        // More of the tenant's runs may go on now.
        self.announce(Signal::Work);
        let Some(before) = self.tenant_lock(tenant).await? else { return Ok(None) };
        let row = sqlx::query_as!(
            TenantRow,
            "UPDATE tenants SET name = coalesce($2, name), quotas = jsonb_strip_nulls(quotas || $3),
                 trust_traceparent = coalesce($4, trust_traceparent)
             WHERE tenant_id = $1 RETURNING tenant_id, name, quotas, trust_traceparent, suspended_at, created_at",
            tenant.0,
            name,
            Value::Object(quotas.clone()),
            trust_traceparent,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        if row != before {
            let detail = json!({"before": before.facts(), "after": row.facts()});
            self.act_on(tenant, Action::TenantUpdate, tenant, detail);
        }
        Ok(Some(row))
    }
}

impl TenantTx {
    /// Whether the tenant's runs stand in their callers' traces.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_trusts_traceparent(&mut self) -> Result<bool> {
        sqlx::query_scalar!("SELECT trust_traceparent FROM tenants WHERE tenant_id = $1", self.tenant())
            .fetch_optional(self.conn())
            .await
            .map(Option::unwrap_or_default)
            .map_err(store_error)
    }

    /// The tenant isn't deleted before this transaction ends; `false`: it is gone. Whoever locks anything of it does this
    /// first, since that is what its deletion locks first. Those that hold it don't wait for each other.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_hold(&mut self) -> Result<bool> {
        let tenant = self.tenant();
        tenant_hold(self.conn(), tenant).await
    }

    /// Deletes the tenant with all that is its own; `false`: there is no such tenant. Its live runs end at once: no
    /// server can write them any more. Nobody who holds the tenant may do this: two of them would wait for each other.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_delete(&mut self) -> Result<bool> {
        let tenant = self.tenant();
        // Holds off what would add to it: keys, runs, settings. Then the runs' own rows, in the order in which a commit
        // takes them.
        let found = sqlx::query!("SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE", tenant)
            .fetch_optional(self.conn())
            .await
            .map_err(store_error)?;
        if found.is_none() {
            return Ok(false);
        }
        sqlx::query!("SELECT FROM run_states WHERE tenant_id = $1 ORDER BY run_id FOR UPDATE", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        // The end of its chain: whoever has kept the chain can tell that it is the whole. All who act hold the tenant, so it
        // grows no more.
        let head = self.audit_head().await?;
        self.tenant_rows_delete(tenant).await?;
        self.acts_forget();
        let detail = json!({"audit_seq": head.seq, "audit_hash": head.hash});
        self.operator_act(Action::TenantDelete, self.tenant_id, detail);
        self.announce(Signal::Keys);
        Ok(true)
    }

    async fn tenant_rows_delete(&mut self, tenant: Uuid) -> Result<()> {
        // At once, not run by run: each statement that takes some away is counted.
        sqlx::query!("DELETE FROM artifacts WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        // Runs and agents first: what they refer to goes with the tenant, and nothing may refer to it by then.
        sqlx::query!("DELETE FROM runs WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        // Entries that have outlived their runs.
        sqlx::query!("DELETE FROM ledger WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        sqlx::query!("DELETE FROM agents WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        self.workspaces_forget().await?;
        sqlx::query!("DELETE FROM tenants WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        sqlx::query!("DELETE FROM events WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        sqlx::query!("DELETE FROM journal WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        sqlx::query!("DELETE FROM idempotency_keys WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        // Last: all that went was counted.
        sqlx::query!("DELETE FROM tenant_counts WHERE tenant_id = $1", tenant)
            .execute(self.conn())
            .await
            .map_err(store_error)?;
        self.usage_forget().await
    }
}

/// A tenant isn't deleted before this transaction, of whomever, ends; `false`: it is gone.
pub(crate) async fn tenant_hold(conn: Conn<'_>, tenant: Uuid) -> Result<bool> {
    let found = sqlx::query!("SELECT FROM tenants WHERE tenant_id = $1 FOR KEY SHARE", tenant)
        .fetch_optional(conn)
        .await
        .map_err(store_error)?;
    Ok(found.is_some())
}
