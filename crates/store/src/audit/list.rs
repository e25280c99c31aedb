//! Reading a chain.

use answerable_core::audit::{Entry, Head};
use answerable_core::id::{AuditId, KeyId, TenantId};
use chrono::{DateTime, SecondsFormat, Utc};

use super::write::key_of;
use crate::Result;
use crate::conn::Conn;
use crate::error::store_error;
use crate::tx::{SystemTx, TenantTx};

/// Which entries are wanted; what is `None` matches all.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// The action, or all on one kind of thing: `approval.*`.
    pub action: Option<String>,
    /// A key's id, `user:NAME`, or a kind of actor.
    pub actor: Option<String>,
    /// Id or name of what it was done to.
    pub target: Option<String>,
    /// Not before.
    pub from: Option<DateTime<Utc>>,
    /// Before.
    pub to: Option<DateTime<Utc>>,
    /// With a greater number.
    pub after: Option<i64>,
    /// Oldest first.
    pub ascending: bool,
    /// The number of the last one of the page before, in this order.
    pub page_after: Option<i64>,
}

impl TenantTx {
    /// The end of the tenant's chain, where it stays until this transaction ends.
    pub(crate) async fn audit_head(&mut self) -> Result<Head> {
        let row =
            sqlx::query!("SELECT seq, hash FROM audit_heads WHERE tenant_id = $1 FOR UPDATE", self.tenant())
                .fetch_optional(self.conn())
                .await
                .map_err(store_error)?;
        Ok(row.map(|row| Head { seq: row.seq, hash: row.hash }).unwrap_or_default())
    }

    /// Entries of the tenant's chain.
    ///
    /// # Errors
    /// The database is away.
    pub async fn audit_list(&mut self, filter: &AuditFilter, limit: i64) -> Result<Vec<Entry>> {
        let chain = Some(self.tenant_id);
        list(self.conn(), chain, filter, limit).await
    }
}

impl SystemTx {
    /// Entries of a tenant's chain; `None`: there is no such tenant.
    ///
    /// # Errors
    /// The database is away.
    pub async fn tenant_audit_list(
        &mut self,
        tenant: TenantId,
        filter: &AuditFilter,
        limit: i64,
    ) -> Result<Option<Vec<Entry>>> {
        if !self.tenant_exists(tenant).await? {
            return Ok(None);
        }
        list(self.conn(), Some(tenant), filter, limit).await.map(Some)
    }

    /// Entries of the operator's own chain.
    ///
    /// # Errors
    /// The database is away.
    pub async fn operator_audit_list(&mut self, filter: &AuditFilter, limit: i64) -> Result<Vec<Entry>> {
        list(self.conn(), None, filter, limit).await
    }
}

/// A key, a user or a kind of actor, whichever is meant.
fn who(actor: Option<&str>) -> (Option<&str>, Option<&str>, Option<&str>) {
    let Some(actor) = actor else { return (None, None, None) };
    match actor.strip_prefix("user:") {
        Some(user) => (None, Some(user), None),
        None if actor.parse::<KeyId>().is_ok() => (Some(actor), None, None),
        None => (None, None, Some(actor)),
    }
}

async fn list(
    conn: Conn<'_>,
    chain: Option<TenantId>,
    filter: &AuditFilter,
    limit: i64,
) -> Result<Vec<Entry>> {
    let prefix = filter.action.as_deref().and_then(|action| action.strip_suffix('*'));
    let (key, user, kind) = who(filter.actor.as_deref());
    let rows = sqlx::query!(
        // Times rise with the numbers, so a span of time is one of numbers.
        r#"WITH found AS NOT MATERIALIZED (
               SELECT * FROM audit
               WHERE tenant_id = $1
                   AND ($2::text IS NULL OR action = $2) AND ($3::text IS NULL OR starts_with(action, $3))
                   AND ($4::text IS NULL OR actor ->> 'key_id' = $4) AND ($12::text IS NULL OR actor ->> 'user' = $12)
                   AND ($13::text IS NULL OR actor ->> 'kind' = $13)
                   AND ($5::text IS NULL OR target ->> 'id' = $5)
                   AND ($6::timestamptz IS NULL OR (at >= $6 AND seq >= (
                       SELECT b.seq FROM audit b WHERE b.tenant_id = $1 AND b.at >= $6 ORDER BY b.at, b.seq LIMIT 1)))
                   AND ($7::timestamptz IS NULL OR (at < $7 AND seq <= (
                       SELECT b.seq FROM audit b WHERE b.tenant_id = $1 AND b.at < $7 ORDER BY b.at DESC, b.seq DESC LIMIT 1)))
                   AND ($8::bigint IS NULL OR seq > $8)
           )
           (SELECT seq AS "seq!", audit_id AS "audit_id!", at AS "at!", actor AS "actor!", action AS "action!",
                target AS "target!", origin AS "origin!", detail AS "detail!", prev_hash, hash AS "hash!"
            FROM found WHERE $9 AND ($10::bigint IS NULL OR seq > $10) ORDER BY seq LIMIT $11)
           UNION ALL
           (SELECT seq, audit_id, at, actor, action, target, origin, detail, prev_hash, hash
            FROM found WHERE NOT $9 AND ($10::bigint IS NULL OR seq < $10) ORDER BY seq DESC LIMIT $11)"#,
        key_of(chain),
        filter.action.as_deref().filter(|_| prefix.is_none()),
        prefix,
        key,
        filter.target,
        filter.from,
        filter.to,
        filter.after,
        filter.ascending,
        filter.page_after,
        limit,
        user,
        kind,
    )
    .fetch_all(conn)
    .await
    .map_err(store_error)?;
    let entries = rows.into_iter().map(|row| Entry {
        id: AuditId(row.audit_id),
        seq: row.seq,
        tenant_id: chain,
        at: row.at.to_rfc3339_opts(SecondsFormat::Millis, true),
        actor: row.actor,
        action: row.action,
        target: row.target,
        from: row.origin,
        detail: row.detail,
        prev_hash: row.prev_hash,
        hash: row.hash,
    });
    let mut entries: Vec<Entry> = entries.collect();
    // Which part the union gives first, and in which order, is nobody's promise.
    entries.sort_unstable_by_key(|entry| if filter.ascending { entry.seq } else { -entry.seq });
    Ok(entries)
}
