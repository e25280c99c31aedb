//! A piece of a replay is written as a commit of the engine is, but within the transaction of whoever asked for it, and
//! without what a replay doesn't have: effects, deliveries, and spans to be exported.

use answerable_core::Millis;
use answerable_core::id::RunId;
use answerable_core::replay::Part;
use answerable_core::run::Record;
use answerable_core::trace::Span;
use answerable_ports::commit::{Commit, Release};
use answerable_ports::{Lease, StoreError};
use uuid::Uuid;

use super::Payload;
use super::beside::Beside;
use crate::Result;
use crate::error::{as_json, store_error};
use crate::outbox::VotesSoFar;
use crate::tx::TenantTx;

impl TenantTx {
    /// Writes the piece that follows the first `seq` ones. All of it happens at `at`; the journal alone knows the times of
    /// then.
    pub(crate) async fn part_write(&mut self, run_id: RunId, seq: i64, part: Part, at: Millis) -> Result<()> {
        let tenant = self.tenant();
        let lease = Lease { tenant_id: self.tenant_id(), run_id, epoch: 0 };
        let commit = commit(part, at);
        let mut payload = Payload::of(lease, &commit, &VotesSoFar::new(), |_, _| String::new());
        payload.outbox.clear();
        let answer = sqlx::query!(
            r#"SELECT commit_run($1, $2, $3, $4, $5, $6, $7::text::json) AS "answer!""#,
            tenant,
            run_id.0,
            lease.epoch,
            seq,
            0_i64,
            Uuid::now_v7(),
            as_json(&payload)?,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)?
        .answer;
        if answer == "stored" {
            return Beside::of(&commit.records).write(self, run_id.0).await;
        }
        Err(StoreError::Broken(format!("commit_run answered {answer} to a replay")))
    }
}

fn commit(part: Part, at: Millis) -> Commit {
    let release = if part.state.is_ended() { Release::End } else { Release::Keep };
    Commit {
        records: part.records.into_iter().filter_map(without_effects).collect(),
        state: part.state,
        events: part.events,
        spans: part.spans.into_iter().map(without_entries).collect(),
        thread_id: None,
        asked_inputs: Vec::new(),
        artifacts: Vec::new(),
        consumed: Vec::new(),
        known_inbox: 0,
        release,
        at,
    }
}

/// Nor do spans name entries.
fn without_entries(mut spans: Vec<Span>) -> Vec<Span> {
    for span in &mut spans {
        span.attributes.remove("answerable.ledger_id");
    }
    spans
}

/// Nothing was sent, so nothing stands in the ledger.
fn without_effects(record: Record) -> Option<Record> {
    match record {
        Record::LedgerOpened(_)
        | Record::LedgerAttempt { .. }
        | Record::LedgerClosed { .. }
        | Record::EffectTaken { .. }
        | Record::ChildOpened(_)
        | Record::ChildStopped { .. } => None,
        Record::CallResult { call, result, .. } => Some(Record::CallResult { call, result, ledger_id: None }),
        other => Some(other),
    }
}
