//! Adding to a chain.

use answerable_core::audit::{Act, Entry, Head, Origin};
use answerable_core::id::{AuditId, TenantId};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::conn::Conn;
use crate::error::{as_json, store_error, violated};
use crate::{Result, StoreError};

/// Writes acts at the end of a chain, whose head it locks.
pub(super) async fn append(
    mut conn: Conn<'_>,
    chain: Option<TenantId>,
    origin: &Origin,
    acts: &[Act],
) -> Result<()> {
    if acts.is_empty() {
        return Ok(());
    }
    // Triggers that wait for the commit take their locks now: none is taken after the head's.
    sqlx::query("SET CONSTRAINTS ALL IMMEDIATE").execute(conn.again()).await.map_err(store_error)?;
    let key = key_of(chain);
    let (mut head, at) = lock(&mut conn, key).await?;
    let shown_at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let mut rows = Vec::with_capacity(acts.len());
    for act in acts {
        let id = AuditId(Uuid::now_v7());
        let entry = Entry::after(&head, id, &shown_at, chain, origin, act);
        head = entry.head();
        rows.push(row(&entry));
    }
    let at =
        DateTime::parse_from_rfc3339(&shown_at).map_err(|error| StoreError::Broken(error.to_string()))?;
    sqlx::query!(
        "WITH written AS (
             INSERT INTO audit (tenant_id, seq, audit_id, at, actor, action, target, origin, detail, prev_hash, hash)
             SELECT $1, e.seq, e.audit_id, $3, e.actor, e.action, e.target, e.origin, e.detail, e.prev_hash, e.hash
             FROM json_to_recordset($2::text::json) AS e(seq bigint, audit_id uuid, actor json, action text, target json,
                 origin json, detail json, prev_hash text, hash text)
         )
         UPDATE audit_heads SET seq = $4, hash = $5, at = $3 WHERE tenant_id = $1",
        key,
        as_json(&Value::Array(rows))?,
        at.to_utc(),
        head.seq,
        head.hash,
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Under what a chain is stored.
pub(super) fn key_of(chain: Option<TenantId>) -> Uuid {
    chain.map_or(Uuid::nil(), |tenant| tenant.0)
}

fn row(entry: &Entry) -> Value {
    json!({"seq": entry.seq, "audit_id": entry.id.0, "actor": entry.actor, "action": entry.action,
        "target": entry.target, "origin": entry.from, "detail": entry.detail, "prev_hash": entry.prev_hash,
        "hash": entry.hash})
}

/// The end of a chain, locked, and the time of what comes next: never before what is there.
async fn lock(conn: &mut Conn<'_>, key: Uuid) -> Result<(Head, DateTime<Utc>)> {
    if let Some(found) = find(conn, key).await? {
        return Ok(found);
    }
    // An older server made the tenant; or the tenant is gone, by a deletion that this transaction didn't hold off. Whoever
    // asks again finds that out.
    sqlx::query!("INSERT INTO audit_heads (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING", key)
        .execute(conn.again())
        .await
        .map_err(|error| match violated(&error) {
            Some("audit_heads_owner_id_fkey") => StoreError::Away("the tenant is gone".into()),
            _ => store_error(error),
        })?;
    find(conn, key).await?.ok_or_else(|| StoreError::Broken("a chain of the audit has no head".into()))
}

async fn find(conn: &mut Conn<'_>, key: Uuid) -> Result<Option<(Head, DateTime<Utc>)>> {
    let row = sqlx::query!(
        r#"SELECT seq, hash, greatest(at, clock_timestamp()) AS "at!" FROM audit_heads WHERE tenant_id = $1 FOR UPDATE"#,
        key,
    )
    .fetch_optional(conn.again())
    .await
    .map_err(store_error)?;
    Ok(row.map(|row| (Head { seq: row.seq, hash: row.hash }, row.at)))
}
