//! Every sealed value, tenant by tenant: which key wraps it, and wrapping it anew with the key that seals. Values and their
//! versions stay as they are.

mod rows;
mod walk;

use std::collections::BTreeMap;

use answerable_core::audit::{Action, Actor, Origin};
use answerable_core::id::TenantId;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::seal::{WrappingKeyId, named_key};
use crate::{Result, Store};
use rows::SealedRow;

/// Tenants that are asked for at once, and sealed values of one that a transaction takes.
const BATCH: i64 = 200;
/// Places of values that can't be opened that are told.
const TOLD: usize = 20;
/// Tenants whose sealed values are looked at for a sample, and how many of each.
const SAMPLED_TENANTS: i64 = 32;
const SAMPLED_VALUES: i64 = 50;

/// What stands sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealedValues {
    /// How many are wrapped by which configured key.
    pub by_key: BTreeMap<WrappingKeyId, u64>,
    /// How many of these are wrapped anew now, or would be.
    pub rewrapped: u64,
    /// How many can't be opened, by the key that they name, if they do.
    pub closed: BTreeMap<Option<WrappingKeyId>, u64>,
    /// Where some of those stand.
    pub closed_places: Vec<String>,
}

impl SealedValues {
    /// How many can't be opened.
    pub fn closed_count(&self) -> u64 {
        self.closed.values().sum()
    }

    fn add_closed(&mut self, row: &SealedRow) {
        *self.closed.entry(named_key(&row.sealed)).or_default() += 1;
        if self.closed_places.len() < TOLD {
            self.closed_places.push(row.place.to_string());
        }
    }
}

/// What becomes of values that another key wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrapping {
    /// They stay, and are counted.
    Stays,
    /// They are wrapped by the key that seals.
    Anew,
}

impl Store {
    /// Goes through all sealed values. Safe beside running servers, and to be begun again after a break: a value that somebody
    /// stores meanwhile is left as it is then. Wrapping anew is written down in the operator's audit, before the first change
    /// and after the last.
    ///
    /// # Errors
    /// The database is away.
    pub async fn sealed_values(&self, wrapping: Wrapping) -> Result<SealedValues> {
        let mut walk = Walk { store: self, wrapping, found: SealedValues::default(), is_told: false };
        walk.operators().await?;
        let mut after = Uuid::nil();
        loop {
            let tenants = self.system().await?.tenants_after(after, BATCH).await?;
            let Some(last) = tenants.last() else { break };
            after = *last;
            for tenant in tenants {
                walk.tenant(TenantId(tenant)).await?;
            }
        }
        if walk.is_told {
            walk.tell("ended").await?;
        }
        Ok(walk.found)
    }

    /// Of some sealed values, of the tenants that were served last: how many there are, and how many of them can be opened.
    ///
    /// # Errors
    /// The database is away.
    pub async fn sealed_sample(&self) -> Result<(usize, usize)> {
        let (mut all, mut open) = (0, 0);
        let tenants = self.system().await?.tenants_served_last(SAMPLED_TENANTS).await?;
        for tenant in tenants {
            let rows = self.tenant(TenantId(tenant)).await?.sealed_rows(None, SAMPLED_VALUES).await?;
            let opens =
                |row: &&SealedRow| self.sealer().wrapped_by(&row.place.to_string(), &row.sealed).is_ok();
            all += rows.len();
            open += rows.iter().filter(opens).count();
        }
        Ok((all, open))
    }
}

struct Walk<'s> {
    store: &'s Store,
    wrapping: Wrapping,
    found: SealedValues,
    /// The beginning is written down.
    is_told: bool,
}

impl Walk<'_> {
    /// The operator's kept answers, which no tenant's transaction reaches.
    async fn operators(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            let mut tx = self.store.system().await?;
            let rows = tx.sealed_answers(after.as_ref(), BATCH).await?;
            let anew = self.look_at(&rows).await?;
            for (row, sealed) in &anew {
                self.found.rewrapped += u64::from(tx.sealed_answer_replace(row, sealed).await?);
            }
            tx.commit().await?;
            let Some(last) = rows.into_iter().last() else { return Ok(()) };
            after = Some(last.place);
        }
    }

    async fn tenant(&mut self, tenant: TenantId) -> Result<()> {
        let mut after = None;
        loop {
            let mut tx = self.store.tenant(tenant).await?;
            let rows = tx.sealed_rows(after.as_ref(), BATCH).await?;
            let anew = self.look_at(&rows).await?;
            for (row, sealed) in &anew {
                self.found.rewrapped += u64::from(tx.sealed_replace(row, sealed).await?);
            }
            tx.commit().await?;
            let Some(last) = rows.into_iter().last() else { return Ok(()) };
            after = Some(last.place);
        }
    }

    /// Counts, and gives those that are to be replaced, with what is to stand there.
    async fn look_at<'r>(&mut self, rows: &'r [SealedRow]) -> Result<Vec<(&'r SealedRow, Vec<u8>)>> {
        let sealer = self.store.sealer().clone();
        let mut anew = Vec::new();
        for row in rows {
            let place = row.place.to_string();
            let Ok(key) = sealer.wrapped_by(&place, &row.sealed) else {
                self.found.add_closed(row);
                continue;
            };
            *self.found.by_key.entry(key).or_default() += 1;
            if let Ok(Some(sealed)) = sealer.rewrap(&place, &row.sealed) {
                anew.push((row, sealed));
            }
        }
        if self.wrapping == Wrapping::Stays {
            self.found.rewrapped += anew.len() as u64;
            anew.clear();
        }
        if !anew.is_empty() && !self.is_told {
            self.is_told = true;
            self.tell("begun").await?;
        }
        Ok(anew)
    }

    async fn tell(&self, stage: &str) -> Result<()> {
        let mut tx = self.store.system().await?;
        tx.asked_by(Origin { actor: Actor::Operator, ..Origin::default() });
        let key = self.store.sealer().key_id().to_string();
        tx.operator_act(Action::SecretsRewrap, &key, self.detail(stage));
        tx.commit().await
    }

    fn detail(&self, stage: &str) -> Value {
        match stage {
            "ended" => {
                json!({"stage": stage, "rewrapped": self.found.rewrapped, "closed": self.found.closed_count()})
            }
            _ => json!({"stage": stage}),
        }
    }
}
