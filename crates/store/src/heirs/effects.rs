//! Effects that a run takes from the ledger instead of making them again (contract, "fork", "continue"). A call of another
//! agent may have failed and have made effects before; it is as little made again as one that succeeded.

use std::collections::BTreeSet;

use answerable_core::id::{LedgerId, RunId};
use answerable_core::run::KeyHolder;
use answerable_core::tool::ToolResult;
use uuid::Uuid;

use super::lineage::Part;
use crate::Result;
use crate::engine_side::{as_it_turned_out, as_the_ledger_has_it};
use crate::error::store_error;
use crate::load::decode;
use crate::tx::TenantTx;

impl TenantTx {
    /// Effects of a run that has ended of which its model doesn't know what they came to: they were left unclear, or became
    /// known after the call had its result; and those that it brought along itself and never took.
    pub(super) async fn effects_left(&mut self, base: RunId) -> Result<Vec<Uuid>> {
        let tenant = self.tenant();
        sqlx::query_scalar!(
            r#"SELECT e.ledger_id AS "ledger_id!" FROM (
                   SELECT l.ledger_id, l.started_at FROM ledger l
                   JOIN calls c ON c.tenant_id = l.tenant_id AND c.call_id = l.call_id
                   WHERE l.tenant_id = $1 AND l.run_id = $2 AND l.writes AND (l.status <> 'failed' OR l.side_effect <> 'none')
                       AND coalesce(c.result ->> 'status', 'cancelled') IN ('uncertain', 'cancelled')
                   UNION
                   SELECT l.ledger_id, l.started_at FROM inherited_effects i
                   JOIN ledger l ON l.tenant_id = i.tenant_id AND l.ledger_id = i.ledger_id
                   LEFT JOIN calls c ON c.tenant_id = i.tenant_id AND c.call_id = i.taken_by
                   WHERE i.tenant_id = $1 AND i.run_id = $2 AND (l.status <> 'failed' OR l.side_effect <> 'none')
                       AND (i.taken_by IS NULL OR c.result ->> 'status' IN ('uncertain', 'cancelled'))
               ) e ORDER BY e.started_at, e.ledger_id"#,
            tenant,
            base.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Effects that were made after a step of a run, in whichever run that step and the later ones were made.
    pub(super) async fn effects_after(
        &mut self,
        base: RunId,
        parts: &[Part],
        after_step: u32,
    ) -> Result<Vec<Uuid>> {
        let tenant = self.tenant();
        let own: Vec<&Part> = parts.iter().filter(|part| part.own).collect();
        let runs: Vec<Uuid> = own.iter().map(|part| part.run).collect();
        let through: Vec<i32> = own.iter().map(|part| part.through_step()).collect();
        sqlx::query_scalar!(
            r#"SELECT e.ledger_id AS "ledger_id!" FROM (
                   SELECT l.ledger_id, l.started_at FROM unnest($3::uuid[], $4::integer[]) AS p(run, through)
                   JOIN ledger l ON l.tenant_id = $1 AND l.run_id = p.run AND l.step > $5 AND l.step <= p.through
                   WHERE l.writes AND (l.status <> 'failed' OR l.side_effect <> 'none')
                   UNION
                   SELECT l.ledger_id, l.started_at FROM inherited_effects i
                   JOIN ledger l ON l.tenant_id = i.tenant_id AND l.ledger_id = i.ledger_id
                   LEFT JOIN calls c ON c.tenant_id = i.tenant_id AND c.call_id = i.taken_by
                   WHERE i.tenant_id = $1 AND i.run_id = $2 AND (l.status <> 'failed' OR l.side_effect <> 'none')
                       AND (i.taken_by IS NULL OR c.step > $5)
               ) e ORDER BY e.started_at, e.ledger_id"#,
            tenant,
            base.0,
            &runs,
            &through,
            i32::try_from(after_step).unwrap_or(i32::MAX),
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    /// Tool and input hash of the run's effects of which still nobody knows.
    pub(super) async fn effects_unknown(&mut self, base: RunId) -> Result<BTreeSet<(String, String)>> {
        let tenant = self.tenant();
        let rows = sqlx::query!(
            "SELECT tool_name, input_hash FROM ledger l WHERE l.tenant_id = $1 AND l.status IN ('started', 'uncertain')
                 AND (l.run_id = $2 OR l.ledger_id IN (
                     SELECT ledger_id FROM inherited_effects WHERE tenant_id = $1 AND run_id = $2))",
            tenant,
            base.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)?;
        Ok(rows.into_iter().map(|row| (row.tool_name, row.input_hash)).collect())
    }

    pub(super) async fn effects_insert(&mut self, run_id: RunId, entries: &[Uuid]) -> Result<()> {
        let tenant = self.tenant();
        sqlx::query!(
            "INSERT INTO inherited_effects (tenant_id, run_id, ledger_id, tool_name, input_hash, ord)
             SELECT $1, $2, l.ledger_id, l.tool_name, l.input_hash, e.ord
             FROM unnest($3::uuid[]) WITH ORDINALITY AS e(ledger_id, ord)
             JOIN ledger l ON l.tenant_id = $1 AND l.ledger_id = e.ledger_id",
            tenant,
            run_id.0,
            entries,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// The first effect of before that is the same and that no call has taken; `Err(())` inside: it is still under way.
    pub(crate) async fn effect_find(
        &mut self,
        run: Uuid,
        tool_name: &str,
        input_hash: &str,
    ) -> Result<Option<std::result::Result<KeyHolder, ()>>> {
        let tenant = self.tenant();
        let row = sqlx::query!(
            r#"SELECT l.ledger_id, l.status, l.side_effect, l.run_id IS NULL AS "is_bare!", c.result AS "result?" FROM inherited_effects i
             JOIN ledger l ON l.tenant_id = i.tenant_id AND l.ledger_id = i.ledger_id
             LEFT JOIN calls c ON c.tenant_id = l.tenant_id AND c.call_id = l.call_id
             WHERE i.tenant_id = $1 AND i.run_id = $2 AND i.tool_name = $3 AND i.input_hash = $4 AND i.taken_by IS NULL
                 AND (l.status <> 'failed' OR l.side_effect <> 'none')
             ORDER BY i.ord LIMIT 1"#,
            tenant,
            run,
            tool_name,
            input_hash,
        )
        .fetch_optional(self.conn())
        .await
        .map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let result = match row.result.filter(|_| row.status != "started") {
            Some(result) => {
                as_it_turned_out(decode::<ToolResult>(result, "result")?, &row.status, &row.side_effect)
            }
            // Its run was deleted.
            None if row.is_bare => as_the_ledger_has_it(&row.status, &row.side_effect),
            None => return Ok(Some(Err(()))),
        };
        let ledger_id = LedgerId(row.ledger_id);
        Ok(Some(Ok(KeyHolder { ledger_id, same_input: true, result, inherited: true })))
    }
}
