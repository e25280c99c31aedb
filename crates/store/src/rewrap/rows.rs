//! Where sealed values stand: all columns, in one place.

use std::fmt;

use answerable_core::id::{TenantId, WebhookId};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use crate::Result;
use crate::conn::Conn;
use crate::error::store_error;
use crate::seal::place;
use crate::tx::{SystemTx, TenantTx};

/// Where a sealed value stands. Kinds are named as the value's own place names them, but for what stands beside another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    tenant: TenantId,
    pub(super) kind: String,
    /// Its name, id or version; of a kept answer its route.
    name: String,
    /// Of a kept answer its key.
    key: String,
    version: Option<i32>,
}

impl fmt::Display for Place {
    /// As it was sealed for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.kind.as_str() {
            "signing" => place(self.tenant, "signing", "tools", self.version),
            "webhook" | "webhook_before" => {
                let id = Uuid::parse_str(&self.name).unwrap_or_default();
                place(self.tenant, "webhook", &WebhookId(id).to_string(), None)
            }
            "answer" => place(self.tenant, "answer", &format!("{} {}", self.name, self.key), None),
            kind => place(self.tenant, kind, &self.name, self.version),
        };
        f.write_str(&text)
    }
}

/// A sealed value.
#[derive(Debug)]
pub(super) struct SealedRow {
    pub(super) place: Place,
    pub(super) sealed: Vec<u8>,
}

/// As it comes from the database.
pub(super) struct Found {
    pub(super) tenant_id: Uuid,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) key: String,
    pub(super) version: Option<i32>,
    pub(super) sealed: Vec<u8>,
}

impl From<Found> for SealedRow {
    fn from(found: Found) -> Self {
        let Found { tenant_id, kind, name, key, version, sealed } = found;
        Self { place: Place { tenant: TenantId(tenant_id), kind, name, key, version }, sealed }
    }
}

impl TenantTx {
    /// Puts `sealed` where `row` stood; `false`: by now something else stands there.
    pub(super) async fn sealed_replace(&mut self, row: &SealedRow, sealed: &[u8]) -> Result<bool> {
        let (tenant, was, name) = (self.tenant(), &row.sealed[..], row.place.name.as_str());
        let query = match row.place.kind.as_str() {
            "secret" => sqlx::query!(
                "UPDATE secrets SET sealed = $3 WHERE tenant_id = $1 AND name = $2 AND sealed = $4",
                tenant, name, sealed, was,
            ),
            "provider" => sqlx::query!(
                "UPDATE providers SET sealed = $3 WHERE tenant_id = $1 AND name = $2 AND sealed = $4",
                tenant, name, sealed, was,
            ),
            "mcp_server" => sqlx::query!(
                "UPDATE mcp_servers SET sealed = $3 WHERE tenant_id = $1 AND name = $2 AND sealed = $4",
                tenant, name, sealed, was,
            ),
            "signing" => sqlx::query!(
                "UPDATE signing_secrets SET sealed = $3 WHERE tenant_id = $1 AND version::text = $2 AND sealed = $4",
                tenant, name, sealed, was,
            ),
            // A rotation in between makes the one before out of the newest: each is looked for in both places.
            "webhook" | "webhook_before" => sqlx::query!(
                "UPDATE webhooks SET sealed = CASE WHEN sealed = $4 THEN $3 ELSE sealed END,
                     sealed_before = CASE WHEN sealed_before = $4 THEN $3 ELSE sealed_before END
                 WHERE tenant_id = $1 AND webhook_id = $2::text::uuid AND (sealed = $4 OR sealed_before = $4)",
                tenant, name, sealed, was,
            ),
            _ => return answer_replace(self.conn(), row, sealed).await,
        };
        let done = query.execute(self.conn()).await.map_err(store_error)?;
        Ok(done.rows_affected() > 0)
    }
}

impl SystemTx {
    /// Sealed answers to the operator's requests, after a place.
    pub(super) async fn sealed_answers(
        &mut self,
        after: Option<&Place>,
        limit: i64,
    ) -> Result<Vec<SealedRow>> {
        let (route, key) = words(after);
        let rows = sqlx::query_as!(
            Found,
            r#"SELECT tenant_id, 'answer' AS "kind!", route AS name, key, NULL::integer AS version,
                   CASE WHEN (headers ->> 'sealed')::boolean THEN decode(body, 'base64') END AS "sealed!"
               FROM idempotency_keys
               WHERE tenant_id = $1 AND (route, key) > ($2, $3) AND (headers ->> 'sealed')::boolean AND body IS NOT NULL
               ORDER BY route, key LIMIT $4"#,
            Uuid::nil(),
            route,
            key,
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(SealedRow::from).collect())
    }

    /// As [`TenantTx::sealed_replace`], of an answer to the operator.
    pub(super) async fn sealed_answer_replace(&mut self, row: &SealedRow, sealed: &[u8]) -> Result<bool> {
        answer_replace(self.conn(), row, sealed).await
    }

    /// The tenants that were served last come first.
    pub(super) async fn tenants_served_last(&mut self, limit: i64) -> Result<Vec<Uuid>> {
        sqlx::query_scalar!(
            "SELECT t.tenant_id FROM tenants t LEFT JOIN api_keys k USING (tenant_id)
             GROUP BY t.tenant_id ORDER BY max(k.last_used_at) DESC NULLS LAST, t.tenant_id DESC LIMIT $1",
            limit,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Tenants by id, after one.
    pub(super) async fn tenants_after(&mut self, after: Uuid, limit: i64) -> Result<Vec<Uuid>> {
        sqlx::query_scalar!(
            "SELECT tenant_id FROM tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2",
            after,
            limit
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}

async fn answer_replace(conn: Conn<'_>, row: &SealedRow, sealed: &[u8]) -> Result<bool> {
    let done = sqlx::query!(
        "UPDATE idempotency_keys SET body = $4 WHERE tenant_id = $1 AND route = $2 AND key = $3 AND body = $5",
        row.place.tenant.0,
        row.place.name,
        row.place.key,
        STANDARD.encode(sealed),
        STANDARD.encode(&row.sealed),
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok(done.rows_affected() > 0)
}

/// What a place is sorted by within its kind.
pub(super) fn words(place: Option<&Place>) -> (&str, &str) {
    place.map_or(("", ""), |place| (&place.name, &place.key))
}
