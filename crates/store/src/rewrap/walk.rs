//! A tenant's sealed values, one after another.

use uuid::Uuid;

use super::rows::{Found, Place, SealedRow, words};
use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// The kinds of a tenant's sealed values, in the order in which they are gone through.
const KINDS: [&str; 7] =
    ["answer", "mcp_server", "provider", "secret", "signing", "webhook", "webhook_before"];

impl TenantTx {
    /// The tenant's sealed values after a place: kind by kind, each in the order of its own key, so that what was gone through is
    /// not read again.
    pub(super) async fn sealed_rows(&mut self, after: Option<&Place>, limit: i64) -> Result<Vec<SealedRow>> {
        let begins = after.and_then(|place| KINDS.iter().position(|kind| *kind == place.kind)).unwrap_or(0);
        let mut rows = Vec::new();
        for kind in &KINDS[begins..] {
            let left = limit - i64::try_from(rows.len()).unwrap_or(limit);
            if left <= 0 {
                break;
            }
            let after = after.filter(|place| place.kind == *kind);
            let found = match *kind {
                "answer" => self.sealed_answers_of(after, left).await,
                "signing" | "webhook" | "webhook_before" => self.sealed_by_id(kind, after, left).await,
                _ => self.sealed_by_name(kind, after, left).await,
            };
            rows.extend(found.map_err(store_error)?.into_iter().map(SealedRow::from));
        }
        Ok(rows)
    }

    async fn sealed_by_name(
        &mut self,
        kind: &str,
        after: Option<&Place>,
        limit: i64,
    ) -> sqlx::Result<Vec<Found>> {
        let (tenant, name) = (self.tenant(), words(after).0);
        match kind {
            "mcp_server" => {
                sqlx::query_as!(
                    Found,
                    r#"SELECT tenant_id, 'mcp_server' AS "kind!", name, '' AS "key!", NULL::integer AS version, sealed AS "sealed!"
                       FROM mcp_servers WHERE tenant_id = $1 AND name > $2 AND sealed IS NOT NULL ORDER BY name LIMIT $3"#,
                    tenant, name, limit,
                )
                .fetch_all(self.conn())
                .await
            }
            "provider" => {
                sqlx::query_as!(
                    Found,
                    r#"SELECT tenant_id, 'provider' AS "kind!", name, '' AS "key!", NULL::integer AS version, sealed AS "sealed!"
                       FROM providers WHERE tenant_id = $1 AND name > $2 AND sealed IS NOT NULL ORDER BY name LIMIT $3"#,
                    tenant, name, limit,
                )
                .fetch_all(self.conn())
                .await
            }
            _ => {
                sqlx::query_as!(
                    Found,
                    r#"SELECT tenant_id, 'secret' AS "kind!", name, '' AS "key!", version AS "version?", sealed
                       FROM secrets WHERE tenant_id = $1 AND name > $2 ORDER BY name LIMIT $3"#,
                    tenant, name, limit,
                )
                .fetch_all(self.conn())
                .await
            }
        }
    }

    async fn sealed_by_id(
        &mut self,
        kind: &str,
        after: Option<&Place>,
        limit: i64,
    ) -> sqlx::Result<Vec<Found>> {
        let (tenant, name) = (self.tenant(), words(after).0);
        let id = Uuid::parse_str(name).unwrap_or_default();
        match kind {
            "signing" => {
                sqlx::query_as!(
                    Found,
                    r#"SELECT tenant_id, 'signing' AS "kind!", version::text AS "name!", '' AS "key!", version AS "version?", sealed
                       FROM signing_secrets WHERE tenant_id = $1 AND version > $2 ORDER BY version LIMIT $3"#,
                    tenant, name.parse::<i32>().unwrap_or(i32::MIN), limit,
                )
                .fetch_all(self.conn())
                .await
            }
            "webhook" => {
                sqlx::query_as!(
                    Found,
                    r#"SELECT tenant_id, 'webhook' AS "kind!", webhook_id::text AS "name!", '' AS "key!", NULL::integer AS version,
                           sealed
                       FROM webhooks WHERE tenant_id = $1 AND webhook_id > $2 ORDER BY webhook_id LIMIT $3"#,
                    tenant, id, limit,
                )
                .fetch_all(self.conn())
                .await
            }
            _ => {
                sqlx::query_as!(
                    Found,
                    r#"SELECT tenant_id, 'webhook_before' AS "kind!", webhook_id::text AS "name!", '' AS "key!",
                           NULL::integer AS version, sealed_before AS "sealed!"
                       FROM webhooks WHERE tenant_id = $1 AND webhook_id > $2 AND sealed_before IS NOT NULL
                       ORDER BY webhook_id LIMIT $3"#,
                    tenant, id, limit,
                )
                .fetch_all(self.conn())
                .await
            }
        }
    }

    async fn sealed_answers_of(&mut self, after: Option<&Place>, limit: i64) -> sqlx::Result<Vec<Found>> {
        let (route, key) = words(after);
        sqlx::query_as!(
            Found,
            r#"SELECT tenant_id, 'answer' AS "kind!", route AS name, key, NULL::integer AS version,
                   decode(body, 'base64') AS "sealed!"
               FROM idempotency_keys
               WHERE tenant_id = $1 AND (route, key) > ($2, $3) AND (headers ->> 'sealed')::boolean AND body IS NOT NULL
               ORDER BY route, key LIMIT $4"#,
            self.tenant(),
            route,
            key,
            limit,
        )
        .fetch_all(self.conn())
        .await
    }
}
