//! The store, as the desk has it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_core::budget::Budgets;
use answerable_core::id::{AgentId, ArtifactId, TenantId};
use answerable_core::run::{Event, KeyHolder, PinnedAgent, Record};
use answerable_core::tool::Attempt;
use answerable_ports::commit::{Commit, CommitOutcome, Inbound};
use answerable_ports::store::Rules;
use answerable_ports::{
    Allowance, AllowanceWanted, ArtifactsKept, Claimed, Claims, LateOutcome, Lease, LoadedRun, ModelTarget,
    PlaceTaken, PlaceWanted, Placed, Renewal, Room, RunStore, StoreError, Wake,
};
use async_trait::async_trait;
use secrecy::SecretString;
use uuid::Uuid;

use crate::desk::{Commits, Desk, Heard, Renewals};

/// An output that can't be stored.
pub(crate) const UNSTORABLE: &str = "unstorable";

fn is_unstorable(event: &Event) -> bool {
    match event {
        Event::ToolAttempted { outcome: Attempt::Succeeded(output), .. } => output.content == UNSTORABLE,
        Event::ChildEnded { end, .. } => end.output.content == UNSTORABLE,
        _ => false,
    }
}

fn begins_under_others(record: &Record, number: i64) -> bool {
    matches!(record, Record::LedgerOpened(row) if row.rules != number)
}

fn away<T>() -> Result<T, StoreError> {
    Err(StoreError::Away("for a test".into()))
}

#[async_trait]
impl RunStore for Desk {
    async fn claim(&self, _: Uuid, _: &Room<'_>, _: Duration) -> Result<Claims, StoreError> {
        let ways = self.ways.borrow().clone();
        if ways.claims_fail {
            self.note(Heard::ClaimFailed);
            return away();
        }
        let claimed = std::mem::take(&mut *self.claims.lock().expect("no panic"));
        if !claimed.is_empty() {
            tokio::time::sleep(ways.claims_take).await;
        } else if let Some(took) = ways.vain_claims_take {
            let asked = Instant::now();
            tokio::time::sleep(took).await;
            self.note(Heard::FoundNothing { asked, answered: Instant::now() });
        }
        Ok(Claims { runs: claimed, more: false })
    }

    async fn reclaim(&self, _: Uuid, _: usize, _: Duration, _: &[Uuid]) -> Result<Vec<Claimed>, StoreError> {
        Ok(Vec::new())
    }

    async fn put_back(&self, _: Uuid, held: &[Uuid]) -> Result<u64, StoreError> {
        self.note(Heard::PutBack(held.to_vec()));
        Ok(0)
    }

    async fn renew(&self, _: Uuid, leases: &[Lease], _: Duration) -> Result<Renewal, StoreError> {
        self.note(Heard::Renewed(leases.to_vec()));
        let ways = self.ways.borrow().clone();
        let (taken, kept): (HashSet<Lease>, HashSet<Lease>) =
            leases.iter().partition(|lease| ways.taken.contains(lease));
        match ways.renewals {
            Renewals::Granted => Ok(Renewal { renewed: kept, lost: taken, ..Renewal::default() }),
            Renewals::Refused => Ok(Renewal { lost: leases.iter().copied().collect(), ..Renewal::default() }),
            Renewals::Busy => Ok(Renewal::default()),
            Renewals::Silent => std::future::pending().await,
        }
    }

    async fn hand_back(&self, lease: Lease, _: Wake, _: i64) -> Result<(), StoreError> {
        self.note(Heard::HandedBack(lease));
        Ok(())
    }

    async fn load(&self, lease: Lease) -> Result<Option<LoadedRun>, StoreError> {
        self.note(Heard::Loaded(lease));
        Ok(Some(self.run.lock().expect("no panic").clone()))
    }

    async fn commit(&self, _: Lease, _: i64, commit: Commit, _: Uuid) -> Result<CommitOutcome, StoreError> {
        let commits = self.ways.borrow().commits;
        if commits == Commits::Broken || commit.events.iter().any(is_unstorable) {
            return Err(StoreError::Broken("invalid byte sequence".into()));
        }
        if commits == Commits::Away {
            return away();
        }
        let number = self.ways.borrow().rules.as_ref().map_or(0, |rules| rules.number);
        if commit.records.iter().any(|record| begins_under_others(record, number)) {
            if let Some(time) = self.ways.borrow().clock_when_fenced {
                self.clock.heard(time, std::time::Instant::now());
            }
            self.note(Heard::Fenced);
            return Ok(CommitOutcome::RulesChanged);
        }
        self.note(Heard::Commit(Box::new(commit)));
        Ok(CommitOutcome::Stored)
    }

    async fn inbox(&self, _: Lease, after: i64) -> Result<Vec<Inbound>, StoreError> {
        let inbox = self.ways.borrow().inbox.clone();
        Ok(inbox.into_iter().filter(|item| item.number > after).collect())
    }

    async fn rules(&self, _: Lease, _: Option<Uuid>, _: Option<Uuid>) -> Result<Rules, StoreError> {
        let read = self.ways.borrow().rules.clone();
        self.ways.send_if_modified(|ways| {
            let next = ways.next_rules.pop_front();
            let changes = next.is_some();
            ways.rules = next.or_else(|| ways.rules.take());
            changes
        });
        read.ok_or_else(|| StoreError::Broken("a policy makes no sense".into()))
    }

    async fn model_target(&self, _: TenantId, name: &str) -> Result<Option<ModelTarget>, StoreError> {
        let day_limited = self.ways.borrow().allowance.is_some();
        Ok(Some(ModelTarget {
            name: name.into(),
            kind: "fake".into(),
            day_limited,
            ..ModelTarget::default()
        }))
    }

    async fn artifacts_kept(&self, _: Lease) -> Result<ArtifactsKept, StoreError> {
        Ok(ArtifactsKept::default())
    }

    async fn artifacts(
        &self,
        tenant: TenantId,
        ids: &[ArtifactId],
    ) -> Result<BTreeMap<ArtifactId, Arc<[u8]>>, StoreError> {
        let ways = self.ways.borrow().clone();
        if ways.artifacts_fail {
            self.note(Heard::ArtifactsFailed);
            return away();
        }
        let is_its_own = tenant == self.lease(1).tenant_id;
        let found = ways.artifacts.into_iter().filter(|(id, _)| is_its_own && ids.contains(id));
        Ok(found.collect())
    }

    async fn secrets(&self, _: TenantId, _: &[String]) -> Result<BTreeMap<String, SecretString>, StoreError> {
        self.note(Heard::Prepares);
        let waiting = self.note_if_dropped(Heard::PreparationDropped);
        let mut ways = self.ways.subscribe();
        ways.wait_for(|ways| ways.gives_secrets).await.expect("the desk is there");
        waiting.came();
        Ok(BTreeMap::from([("key".into(), SecretString::from("s"))]))
    }

    async fn signing_secrets(&self, _: TenantId) -> Result<Vec<SecretString>, StoreError> {
        Ok(Vec::new())
    }

    async fn key_holder(
        &self,
        _: TenantId,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Option<Result<KeyHolder, ()>>, StoreError> {
        Ok(None)
    }

    async fn earlier_effect(
        &self,
        _: Lease,
        _: &str,
        _: &str,
    ) -> Result<Option<Result<KeyHolder, ()>>, StoreError> {
        Ok(None)
    }

    async fn take_allowance(&self, _: Lease, wanted: AllowanceWanted) -> Result<Allowance, StoreError> {
        self.note(Heard::AsksAllowance(wanted));
        self.ways.borrow().allowance.ok_or_else(|| StoreError::Broken("there is no quota".into()))
    }

    async fn take_place(&self, _: Lease, _: &PlaceWanted) -> Result<Placed, StoreError> {
        self.note(Heard::AsksPlace);
        let mut ways = self.ways.subscribe();
        let place = ways.wait_for(|ways| ways.place.is_some()).await.expect("the desk is there").place;
        Ok(place.expect("an answer"))
    }

    async fn free_place(&self, _: Lease, _: &PlaceTaken, left: bool) -> Result<(), StoreError> {
        let takes = self.ways.borrow().frees_take;
        tokio::time::sleep(takes).await;
        self.note(Heard::Freed { left });
        Ok(())
    }

    async fn places(&self, _: Lease) -> Result<Vec<PlaceTaken>, StoreError> {
        Ok(Vec::new())
    }

    async fn late_outcome(&self, _: Lease, late: &LateOutcome) -> Result<bool, StoreError> {
        self.note(Heard::Late(late.clone()));
        Ok(self.ways.borrow().owner_spoke)
    }

    async fn called_agent(
        &self,
        _: TenantId,
        agent_id: AgentId,
        _: Option<u32>,
    ) -> Result<Result<PinnedAgent, String>, StoreError> {
        Ok(Ok(PinnedAgent { agent_id, version: 1, spec_hash: "h".into(), budgets: Budgets::default() }))
    }

    async fn tell_children(&self) -> Result<u64, StoreError> {
        self.note(Heard::Sweeps);
        let mut ways = self.ways.subscribe();
        ways.wait_for(|ways| ways.sweeps).await.expect("the desk is there");
        Ok(0)
    }

    async fn settle_ended(&self, _: Lease) -> Result<(), StoreError> {
        self.note(Heard::Settled);
        Ok(())
    }
}
