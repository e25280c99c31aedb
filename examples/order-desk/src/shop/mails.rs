//! Mails: the shop's outgoing post. It is written down, not sent.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::request::CallMarks;
use super::{Idempotency, Shop, tables};

/// A mail to a customer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMail {
    to: String,
    subject: String,
    text: String,
}

/// `POST /mails`: puts a mail into the outgoing post; only customers can be written to.
pub(super) async fn send_mail(
    State(shop): State<Shop>,
    marks: CallMarks,
    Json(new): Json<NewMail>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let mut transaction = shop.pool.begin().await?;
    if let Some(key) = &marks.idempotency_key {
        tables::lock_key(&mut transaction, key).await?;
        let known: Option<i64> = sqlx::query_scalar(
            "SELECT mail_id FROM mails WHERE idempotency_key = $1 ORDER BY mail_id LIMIT 1",
        )
        .bind(key)
        .fetch_optional(&mut *transaction)
        .await?;
        if let (Idempotency::Honour, Some(mail_id)) = (shop.idempotency, known) {
            return Ok((StatusCode::OK, Json(json!({ "mail_id": mail_id }))));
        }
    }
    let mail_id: Option<i64> = sqlx::query_scalar(
        "INSERT INTO mails (recipient, subject, body, idempotency_key, run_id, message_id)
         SELECT email, $2, $3, $4, $5, $6 FROM customers WHERE email = lower($1) RETURNING mail_id",
    )
    .bind(&new.to)
    .bind(&new.subject)
    .bind(&new.text)
    .bind(&marks.idempotency_key)
    .bind(&marks.run_id)
    .bind(&marks.message_id)
    .fetch_optional(&mut *transaction)
    .await?;
    let mail_id = mail_id.ok_or_else(|| Refusal::NotFound(format!("{} is no customer", new.to)))?;
    transaction.commit().await?;
    Ok((StatusCode::CREATED, Json(json!({ "mail_id": mail_id }))))
}
