//! First answers to requests with an `Idempotency-Key`, kept in the transaction of what they did.

use std::future::Future;

use answerable_faults::{self as faults, Guard};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::conn::Conn;
use crate::error::store_error;
use crate::seal::{Sealer, place};
use crate::tx::{SystemTx, TenantTx};
use crate::{Result, StoreError};

/// How long a request waits for the first with its key.
const PATIENCE: &str = "10s";

/// Marks a kept answer whose run was deleted; `run_delete.rs` writes it. An older server answers with it as it is.
const GONE: i16 = 404;

/// What a request is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRequest {
    /// Method and path as sent.
    pub route: String,
    /// The key.
    pub key: String,
    /// Hash of the body.
    pub hash: [u8; 32],
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// HTTP status; of successes only.
    pub status: i16,
    /// `Location`.
    pub location: Option<String>,
    /// The body's text.
    pub body: Option<String>,
    /// The body holds a secret: it is stored sealed.
    pub secret: bool,
    /// The run that it tells of.
    pub run_id: Option<Uuid>,
}

/// Whether a request is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It is, and the key is now its own.
    New,
    /// It was answered so.
    Answered(KeptAnswer),
    /// It was answered with a run that was deleted since.
    Gone,
    /// The key stands for another request.
    Other,
    /// The first with this key is not done yet, and was waited for long enough.
    UnderWay,
}

/// A transaction that can keep answers.
pub trait KeptTx: Send + Sized {
    /// Reserves the key, or finds the answer. Waits for a first request that is under way.
    fn request_begin(&mut self, request: &KeptRequest) -> impl Future<Output = Result<Kept>> + Send;

    /// Keeps the answer of a request that was begun in this transaction.
    fn answer_keep(
        &mut self,
        request: &KeptRequest,
        answer: &KeptAnswer,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Gives the key of a request that was begun in this transaction back: the same request again is a new one.
    fn request_forget(&mut self, request: &KeptRequest) -> impl Future<Output = Result<()>> + Send;

    /// Commits.
    fn commit_all(self) -> impl Future<Output = Result<()>> + Send;
}

impl KeptTx for TenantTx {
    async fn request_begin(&mut self, request: &KeptRequest) -> Result<Kept> {
        let (tenant, sealer) = (self.tenant(), self.sealer.clone());
        begin(self.conn(), tenant, &sealer, request).await
    }

    async fn answer_keep(&mut self, request: &KeptRequest, answer: &KeptAnswer) -> Result<()> {
        let (tenant, sealer) = (self.tenant(), self.sealer.clone());
        keep(self.conn(), tenant, &sealer, request, answer).await
    }

    async fn request_forget(&mut self, request: &KeptRequest) -> Result<()> {
        let tenant = self.tenant();
        forget(self.conn(), tenant, request).await
    }

    async fn commit_all(self) -> Result<()> {
        self.commit().await
    }
}

/// The operator's requests stand under the nil tenant.
impl KeptTx for SystemTx {
    async fn request_begin(&mut self, request: &KeptRequest) -> Result<Kept> {
        let sealer = self.sealer.clone();
        begin(self.conn(), Uuid::nil(), &sealer, request).await
    }

    async fn answer_keep(&mut self, request: &KeptRequest, answer: &KeptAnswer) -> Result<()> {
        let sealer = self.sealer.clone();
        keep(self.conn(), Uuid::nil(), &sealer, request, answer).await
    }

    async fn request_forget(&mut self, request: &KeptRequest) -> Result<()> {
        forget(self.conn(), Uuid::nil(), request).await
    }

    async fn commit_all(self) -> Result<()> {
        self.commit().await
    }
}

impl SystemTx {
    /// Forgets up to `limit` answers that are older than a day; gives how many.
    ///
    /// # Errors
    /// The database is away.
    pub async fn answers_prune(&mut self, limit: i64) -> Result<u64> {
        let done = sqlx::query!(
            "WITH old AS MATERIALIZED (
                 SELECT tenant_id, route, key FROM idempotency_keys
                 WHERE created_at < now() - interval '25 hours' ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
             )
             DELETE FROM idempotency_keys k USING old
             WHERE k.tenant_id = old.tenant_id AND k.route = old.route AND k.key = old.key",
            limit,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(done.rows_affected())
    }
}

async fn begin(mut conn: Conn<'_>, tenant: Uuid, sealer: &Sealer, request: &KeptRequest) -> Result<Kept> {
    if faults::without(Guard::IdempotencyKeys) {
        return Ok(Kept::New);
    }
    sqlx::query!("SELECT set_config('lock_timeout', $1, true)", PATIENCE)
        .fetch_one(conn.again())
        .await
        .map_err(store_error)?;
    let reserved = sqlx::query!(
        "INSERT INTO idempotency_keys (tenant_id, route, key, request_hash) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING",
        tenant,
        request.route,
        request.key,
        &request.hash[..],
    )
    .execute(conn.again())
    .await;
    match reserved {
        Ok(done) if done.rows_affected() == 1 => Ok(Kept::New),
        Ok(_) => find(conn, tenant, sealer, request).await,
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("55P03") => Ok(Kept::UnderWay),
        Err(error) => Err(store_error(error)),
    }
}

async fn find(conn: Conn<'_>, tenant: Uuid, sealer: &Sealer, request: &KeptRequest) -> Result<Kept> {
    let row = sqlx::query!(
        "SELECT request_hash, status, headers, body, run_id FROM idempotency_keys
         WHERE tenant_id = $1 AND route = $2 AND key = $3",
        tenant,
        request.route,
        request.key,
    )
    .fetch_optional(conn)
    .await
    .map_err(store_error)?;
    // None: it was forgotten between the two statements; the sender asks once more.
    let Some(row) = row else { return Ok(Kept::UnderWay) };
    let Some(status) = row.status else { return Ok(Kept::UnderWay) };
    if row.request_hash != request.hash {
        return Ok(Kept::Other);
    }
    if status == GONE {
        return Ok(Kept::Gone);
    }
    let headers = row.headers.unwrap_or_default();
    let secret = headers["sealed"] == true;
    let body = match row.body {
        Some(text) if secret => Some(open(sealer, tenant, request, &text)?),
        body => body,
    };
    let location = headers["location"].as_str().map(str::to_owned);
    Ok(Kept::Answered(KeptAnswer { status, location, body, secret, run_id: row.run_id }))
}

async fn keep(
    conn: Conn<'_>,
    tenant: Uuid,
    sealer: &Sealer,
    request: &KeptRequest,
    answer: &KeptAnswer,
) -> Result<()> {
    let headers = json!({"location": answer.location, "sealed": answer.secret});
    let body = match &answer.body {
        Some(text) if answer.secret => Some(seal(sealer, tenant, request, text)?),
        body => body.clone(),
    };
    sqlx::query!(
        "UPDATE idempotency_keys SET status = $4, headers = $5, body = $6, run_id = $7
         WHERE tenant_id = $1 AND route = $2 AND key = $3",
        tenant,
        request.route,
        request.key,
        answer.status,
        headers as Value,
        body,
        answer.run_id,
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok(())
}

async fn forget(conn: Conn<'_>, tenant: Uuid, request: &KeptRequest) -> Result<()> {
    sqlx::query!(
        "DELETE FROM idempotency_keys WHERE tenant_id = $1 AND route = $2 AND key = $3",
        tenant,
        request.route,
        request.key,
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok(())
}

fn place_of(tenant: Uuid, request: &KeptRequest) -> String {
    place(
        answerable_core::id::TenantId(tenant),
        "answer",
        &format!("{} {}", request.route, request.key),
        None,
    )
}

fn seal(sealer: &Sealer, tenant: Uuid, request: &KeptRequest, text: &str) -> Result<String> {
    let sealed = sealer.seal(&place_of(tenant, request), &SecretString::from(text));
    sealed.map(|sealed| STANDARD.encode(sealed)).map_err(|error| StoreError::Broken(error.to_string()))
}

fn open(sealer: &Sealer, tenant: Uuid, request: &KeptRequest, text: &str) -> Result<String> {
    let sealed = STANDARD.decode(text).map_err(|error| StoreError::Broken(error.to_string()))?;
    let opened = sealer.open(&place_of(tenant, request), &sealed);
    opened.map(|text| text.expose_secret().to_owned()).map_err(|error| StoreError::Broken(error.to_string()))
}
