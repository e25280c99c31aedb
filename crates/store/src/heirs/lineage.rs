//! The runs that a run's history begins with, and how far each of them counts.

use answerable_core::id::{RunId, ThreadId};
use answerable_core::run::RunState;
use uuid::Uuid;

use crate::Result;
use crate::error::store_error;
use crate::tx::TenantTx;

/// Runs that one may stand on, one on the other.
pub(crate) const MAX_LINEAGE: usize = 500;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(super) run: Uuid,
    through_step: i32,
    through_seq: i64,
    /// Its steps are shown as those of the run that stands on it.
    pub(super) own: bool,
}

impl Part {
    /// All of a run.
    pub(super) fn whole(run: RunId, state: &RunState) -> Self {
        let mut part = Self { run: run.0, through_step: 0, through_seq: 0, own: true };
        part.cut(state.step, state.next_message - 1);
        part
    }

    /// Only what led to the end of a step.
    pub(super) fn cut(&mut self, step: u32, seq: u64) {
        self.through_step = i32::try_from(step).unwrap_or(i32::MAX);
        self.through_seq = i64::try_from(seq).unwrap_or(i64::MAX);
    }

    /// The last step of it that counts.
    pub(super) fn through_step(&self) -> i32 {
        self.through_step
    }
}

/// The parts that led to the end of a step, the one that it was made in last.
pub(super) fn up_to(parts: &[Part], step: u32) -> Vec<Part> {
    let step = i32::try_from(step).unwrap_or(i32::MAX);
    let made_in = parts.iter().position(|part| part.own && part.through_step >= step);
    made_in.map(|last| parts[..=last].to_vec()).unwrap_or_default()
}

impl TenantTx {
    pub(crate) async fn lineage_fetch(&mut self, run_id: RunId) -> Result<Vec<Part>> {
        let tenant = self.tenant();
        sqlx::query_as!(
            Part,
            "SELECT ancestor_id AS run, through_step, through_seq, own FROM run_lineage
             WHERE tenant_id = $1 AND run_id = $2 ORDER BY position",
            tenant,
            run_id.0,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }

    pub(crate) async fn lineage_insert(&mut self, run_id: RunId, parts: &[Part]) -> Result<()> {
        let tenant = self.tenant();
        let runs: Vec<Uuid> = parts.iter().map(|part| part.run).collect();
        let steps: Vec<i32> = parts.iter().map(|part| part.through_step).collect();
        let seqs: Vec<i64> = parts.iter().map(|part| part.through_seq).collect();
        let own: Vec<bool> = parts.iter().map(|part| part.own).collect();
        sqlx::query!(
            "INSERT INTO run_lineage (tenant_id, run_id, position, ancestor_id, through_step, through_seq, own)
             SELECT $1, $2, p.position - 1, p.run, p.step, p.seq, p.own
             FROM unnest($3::uuid[], $4::integer[], $5::bigint[], $6::boolean[]) WITH ORDINALITY
                 AS p(run, step, seq, own, position)",
            tenant,
            run_id.0,
            &runs,
            &steps,
            &seqs,
            &own,
        )
        .execute(self.conn())
        .await
        .map_err(store_error)?;
        Ok(())
    }

    /// Runs of a thread that had ended before the run of place `ord` came, but none of `parts`: the model was shown them.
    pub(crate) async fn thread_before(
        &mut self,
        thread: ThreadId,
        ord: i64,
        parts: &[Part],
    ) -> Result<Vec<Part>> {
        let tenant = self.tenant();
        let known: Vec<Uuid> = parts.iter().map(|part| part.run).collect();
        sqlx::query_as!(
            Part,
            r#"SELECT run_id AS run, 2147483647 AS "through_step!", 9223372036854775807 AS "through_seq!", false AS "own!"
               FROM runs
               WHERE tenant_id = $1 AND thread_id = $2 AND ord < $3 AND finished_at IS NOT NULL AND run_id <> ALL($4)
               ORDER BY ord FOR KEY SHARE"#,
            tenant,
            thread.0,
            ord,
            &known,
        )
        .fetch_all(self.conn())
        .await
        .map_err(store_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_in_the_run_that_made_it() {
        let part = |run: u128, through_step, own| Part {
            run: Uuid::from_u128(run),
            through_step,
            through_seq: i64::from(through_step) * 2,
            own,
        };
        let parts = [part(1, i32::MAX, false), part(2, 3, true), part(3, 5, true)];
        let last = |step| up_to(&parts, step).last().map(|part| part.run.as_u128());
        assert_eq!([0, 1, 3, 4, 5, 6].map(last), [Some(2), Some(2), Some(2), Some(3), Some(3), None]);
        assert_eq!(up_to(&parts, 2).len(), 2, "what was shown before it stays");
    }
}
