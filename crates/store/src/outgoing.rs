//! Deliveries on their way: claimed for a while, tried, and settled. Across tenants, as whoever sends them.

mod life;
mod tried;

use answerable_core::id::{DeliveryId, TenantId, WebhookId};
use chrono::{DateTime, Utc};
use secrecy::SecretString;

use crate::error::store_error;
use crate::seal::{SealError, Sealer, place};
use crate::{Result, Store};
pub use life::DELIVERY_LIVES;
pub use tried::{AfterTry, Tried};

/// How an endpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Its last try arrived.
    Answers,
    /// It was never tried, or not since it is where it is.
    New,
    /// Its last try failed.
    Fails,
}

impl Health {
    fn of(number: i32) -> Self {
        match number {
            0 => Self::Answers,
            1 => Self::New,
            _ => Self::Fails,
        }
    }
}

/// Places for tries that a sender has left, and what each may have of all senders' places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacesLeft {
    /// In all.
    pub all: i64,
    /// Of these for endpoints that are new.
    pub new: i64,
    /// Of these for endpoints that fail.
    pub failing: i64,
    /// Tries that may be out at once to an endpoint that answers. Any other has one.
    pub each: i64,
    /// Tries that may be out at once of a tenant; at most half of them to endpoints that are new, and a quarter to those
    /// that fail.
    pub of_tenant: i64,
}

/// A delivery that is to be tried now.
#[derive(Debug)]
pub struct Outgoing {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id: the same on every try.
    pub delivery_id: DeliveryId,
    /// The endpoint.
    pub webhook_id: WebhookId,
    /// How the endpoint is.
    pub health: Health,
    /// Where it is.
    pub url: String,
    /// What signs it, the newest first; none: a secret can't be opened with the configured key.
    pub secrets: Vec<SecretString>,
    /// The exact bytes.
    pub body: String,
    /// Tries so far, since it was queued last.
    pub tries: usize,
    /// When it was queued last.
    pub queued_at: DateTime<Utc>,
    /// It is this sender's until then.
    pub lease_until: DateTime<Utc>,
}

impl Store {
    /// Takes deliveries that are due, for half a minute: a try takes sixteen seconds at most. As many as there are places
    /// left, of whoever has the fewest out first, and of one tenant those to endpoints that answer before others. Of endpoints
    /// that fail, the one that failed longest ago has its turn, however much waits for the others. A delivery waits for its
    /// run's earlier ones to the same endpoint while they are tried for the first three times.
    ///
    /// # Errors
    /// The database is away.
    pub async fn deliveries_claim(&self, places: &PlacesLeft) -> Result<Vec<Outgoing>> {
        let mut tx = self.system().await?;
        let rows = sqlx::query!(
            r#"WITH out AS MATERIALIZED (
                   SELECT tenant_id, webhook_id, count(*) AS tries FROM deliveries
                   WHERE status = 'pending' AND lease_until > now() GROUP BY tenant_id, webhook_id
               ), endpoints AS MATERIALIZED (
                   SELECT w.tenant_id, w.webhook_id, w.failed_at, coalesce(out.tries, 0) AS tries,
                       CASE WHEN w.answers_since IS NOT NULL THEN 0 WHEN w.failing_since IS NULL THEN 1 ELSE 2 END AS health,
                       w.disabled_at IS NULL AND (w.resting_until IS NULL OR w.resting_until <= now()) AS hears
                   FROM webhooks w JOIN tenants t ON t.tenant_id = w.tenant_id AND t.suspended_at IS NULL
                   LEFT JOIN out ON out.tenant_id = w.tenant_id AND out.webhook_id = w.webhook_id
               ), busy AS MATERIALIZED (
                   SELECT tenant_id, health, sum(tries) AS tries FROM endpoints WHERE tries > 0 GROUP BY tenant_id, health
               ), due AS MATERIALIZED (
                   SELECT e.tenant_id, e.health, d.delivery_id, coalesce(e.failed_at, d.next_attempt_at) AS turn, d.ord,
                       coalesce(b.tries, 0) + row_number() OVER (PARTITION BY e.tenant_id, e.health
                           ORDER BY coalesce(e.failed_at, d.next_attempt_at), d.ord) AS place_of_health
                   FROM endpoints e
                   LEFT JOIN busy b ON b.tenant_id = e.tenant_id AND b.health = e.health
                   CROSS JOIN LATERAL (
                       SELECT d.delivery_id, d.next_attempt_at, d.ord FROM deliveries d
                       WHERE d.tenant_id = e.tenant_id AND d.webhook_id = e.webhook_id
                         AND d.status = 'pending' AND d.next_attempt_at <= now() AND (d.lease_until IS NULL OR d.lease_until < now())
                         AND NOT EXISTS (SELECT FROM deliveries a WHERE a.tenant_id = d.tenant_id AND a.webhook_id = d.webhook_id
                             AND a.run_id = d.run_id AND a.ord < d.ord AND a.status = 'pending' AND a.tries < 3
                             AND a.next_attempt_at < now() + interval '1 minute')
                       ORDER BY d.next_attempt_at, d.ord
                       LIMIT greatest(CASE e.health WHEN 0 THEN $2::bigint ELSE 1 END - e.tries, 0)) d
                   WHERE e.hears
               ), fit AS MATERIALIZED (
                   SELECT d.tenant_id, d.health, d.delivery_id, d.turn, d.place_of_health,
                       coalesce(b.tries, 0) + row_number() OVER (PARTITION BY d.tenant_id ORDER BY d.health, d.turn, d.ord) AS place
                   FROM due d
                   LEFT JOIN (SELECT tenant_id, sum(tries) AS tries FROM busy GROUP BY tenant_id) b ON b.tenant_id = d.tenant_id
                   WHERE d.place_of_health <= $3::bigint / CASE d.health WHEN 0 THEN 1 WHEN 1 THEN 2 ELSE 4 END
               ), ranked AS MATERIALIZED (
                   SELECT tenant_id, delivery_id, health, place, turn,
                       row_number() OVER (PARTITION BY health ORDER BY place_of_health, turn) AS nth
                   FROM fit WHERE place <= $3::bigint
               ), free AS MATERIALIZED (
                   SELECT d.tenant_id, d.delivery_id, r.health FROM deliveries d
                   JOIN ranked r ON r.tenant_id = d.tenant_id AND r.delivery_id = d.delivery_id
                   WHERE d.status = 'pending' AND (d.lease_until IS NULL OR d.lease_until < now())
                     AND r.nth <= CASE r.health WHEN 0 THEN $1::bigint WHEN 1 THEN $4::bigint ELSE $5::bigint END
                   ORDER BY r.place, r.health, r.turn LIMIT $1 FOR UPDATE OF d SKIP LOCKED
               ), taken AS (
                   UPDATE deliveries d SET lease_until = now() + interval '30 seconds'
                   FROM free WHERE d.tenant_id = free.tenant_id AND d.delivery_id = free.delivery_id
                   RETURNING d.tenant_id, d.delivery_id, d.webhook_id, d.body, d.tries, d.queued_at, d.ord, d.lease_until, free.health
               )
               SELECT t.tenant_id, t.delivery_id, t.webhook_id, t.body, t.tries, t.queued_at, t.lease_until AS "lease_until!", t.health AS "health!",
                   w.url, w.sealed, CASE WHEN w.before_until > now() THEN w.sealed_before END AS sealed_before
               FROM taken t JOIN webhooks w ON w.tenant_id = t.tenant_id AND w.webhook_id = t.webhook_id
               ORDER BY t.ord"#,
            places.all,
            places.each,
            places.of_tenant,
            places.new,
            places.failing,
        )
        .fetch_all(tx.conn())
        .await
        .map_err(store_error)?;
        let sealer = tx.sealer.clone();
        tx.commit().await?;
        let outgoing = rows.into_iter().map(|row| {
            let (tenant_id, webhook_id) = (TenantId(row.tenant_id), WebhookId(row.webhook_id));
            let sealed = std::iter::once(row.sealed).chain(row.sealed_before);
            Outgoing {
                tenant_id,
                webhook_id,
                delivery_id: DeliveryId(row.delivery_id),
                health: Health::of(row.health),
                url: row.url,
                secrets: open_all(&sealer, tenant_id, webhook_id, sealed).unwrap_or_default(),
                body: row.body,
                tries: usize::try_from(row.tries).unwrap_or(0),
                queued_at: row.queued_at,
                lease_until: row.lease_until,
            }
        });
        Ok(outgoing.collect())
    }

    /// When the next delivery is due that nobody is trying, if any is. Those that have been due for longer than two seconds
    /// wait for a place, not for a time.
    ///
    /// # Errors
    /// The database is away.
    pub async fn deliveries_next(&self) -> Result<Option<DateTime<Utc>>> {
        let mut tx = self.system().await?;
        sqlx::query_scalar!(
            "SELECT min(next_attempt_at) FROM deliveries
             WHERE status = 'pending' AND next_attempt_at > now() - interval '2 seconds'
               AND (lease_until IS NULL OR lease_until < now())"
        )
        .fetch_one(tx.conn())
        .await
        .map_err(store_error)
    }
}

/// All of a webhook's live secrets, or none: a receiver that has the other one could not tell.
fn open_all(
    sealer: &Sealer,
    tenant: TenantId,
    webhook: WebhookId,
    sealed: impl Iterator<Item = Vec<u8>>,
) -> std::result::Result<Vec<SecretString>, SealError> {
    let place = place(tenant, "webhook", &webhook.to_string(), None);
    sealed.map(|sealed| sealer.open(&place, &sealed)).collect()
}
