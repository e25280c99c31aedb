//! What attempts on models may take of their tenant's day: given one after another, over all servers.

use std::time::Duration;

use answerable_core::budget::DayLimit;
use answerable_ports::{Allowance, AllowanceWanted, Lease};

use crate::error::store_error;
use crate::tx::TenantTx;
use crate::{Result, StoreError};

/// The most that any model's reply is taken to have where nobody bounds it.
const UNBOUNDED: i64 = 131_072;
/// A reply may have so much, if it may be longer at all, before its request waits for others to come back. Any model takes a
/// bound of this size.
const ENOUGH: i64 = 8_192;

impl TenantTx {
    /// Asks for an allowance; the rules are `take_allowance` of the schema.
    pub(crate) async fn allowance_take(
        &mut self,
        lease: Lease,
        wanted: AllowanceWanted,
    ) -> Result<Allowance> {
        let long =
            |count: u64| i64::try_from(count.min(answerable_core::budget::MAX_COUNT)).unwrap_or(i64::MAX);
        let row = sqlx::query!(
            r#"SELECT answer AS "answer!", output, coalesce(left_s, 1) AS "left!"
               FROM take_allowance($1, $2, $3, $4, $5, $6, $7, $8, $9)"#,
            self.tenant(),
            lease.run_id.0,
            lease.epoch,
            long(wanted.input_tokens),
            wanted.output_tokens.map(long),
            long(wanted.cost_microusd),
            wanted.output_microusd_per_mtok.map(long),
            UNBOUNDED,
            ENOUGH,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        let left = Duration::from_secs(u64::try_from(row.left).unwrap_or(1).max(1));
        match row.answer.as_str() {
            "given" => Ok(Allowance::Given(row.output.and_then(|most| u64::try_from(most).ok()))),
            "wait" => Ok(Allowance::Wait),
            "tokens" => Ok(Allowance::UsedUp(DayLimit::Tokens, left)),
            "money" => Ok(Allowance::UsedUp(DayLimit::Money, left)),
            "lost" => Ok(Allowance::Lost),
            other => Err(StoreError::Broken(format!("take_allowance answered {other}"))),
        }
    }
}
