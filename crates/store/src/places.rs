//! Places among the calls of a tool that has limits: given one after another, over all servers.

use answerable_core::id::{CallId, RunId};
use answerable_ports::{Lease, PlaceTaken, PlaceWanted, Placed};
use std::time::Duration;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

impl TenantTx {
    /// Asks for a place; the rules are `take_place` of the schema.
    pub(crate) async fn place_take(&mut self, lease: Lease, wanted: &PlaceWanted) -> Result<Placed> {
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let long = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let answer = sqlx::query_scalar!(
            "SELECT take_place($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
            self.tenant(),
            wanted.tool_name,
            lease.run_id.0,
            wanted.call_id.0,
            number(wanted.attempt),
            lease.epoch,
            wanted.max_concurrent.map(number),
            wanted.rate.map(|rate| number(rate.calls)),
            wanted.rate.map(|rate| long(rate.per_ms)),
            i64::try_from(wanted.hold.as_millis()).unwrap_or(i64::MAX),
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?;
        Ok(match answer {
            None => Placed::Lost,
            Some(ms) => match u64::try_from(ms) {
                Ok(ms @ 1..) => Placed::Wait(Duration::from_millis(ms)),
                _ => Placed::Taken,
            },
        })
    }

    /// Gives a place up, or a place in line.
    pub(crate) async fn place_free(&mut self, lease: Lease, place: &PlaceTaken, left: bool) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "SELECT FROM free_place($1, $2, $3, $4, $5, $6)",
            tenant,
            place.tool_name,
            place.call_id.0,
            i32::try_from(place.attempt).unwrap_or(i32::MAX),
            lease.epoch,
            left,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Places that calls of the run have had, of calls whose outcome isn't written down.
    pub(crate) async fn place_list(&mut self, run_id: RunId) -> Result<Vec<PlaceTaken>> {
        let rows = sqlx::query!(
            "SELECT tool_name, call_id, attempt FROM tool_places
             WHERE tenant_id = $1 AND run_id = $2 AND left_at IS NOT NULL",
            self.tenant(),
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        let taken = rows.into_iter().map(|row| PlaceTaken {
            tool_name: row.tool_name,
            call_id: CallId(row.call_id),
            attempt: u32::try_from(row.attempt).unwrap_or(0),
        });
        Ok(taken.collect())
    }
}
