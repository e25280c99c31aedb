//! Days: what their sums count, and what attempts on models may take of them.

mod allowances;
mod folding;
mod racing;
mod sums;
mod upgraded;

use answerable_core::budget::{DayLimit, Estimate};
use answerable_core::context::Manifest;
use answerable_core::id::{MessageId, RunId};
use answerable_core::model::Usage;
use answerable_core::reply::ReplyKind;
use answerable_core::run::{Event, ReplyFacts};
use answerable_ports::commit::Release;
use answerable_ports::{Allowance, AllowanceWanted, Lease, RunStore};
use answerable_store::{UsageBy, UsageRow};
use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::world::World;

/// A run whose model is about to be asked.
pub(super) async fn asking(world: &World) -> (RunId, Lease) {
    let run = world.start(|_| ()).await.expect("a run");
    let (lease, at) = (world.claim(run).await, world.now().await);
    world.fold(lease, vec![Event::Started { at }, built(at)], Release::Keep).await;
    (run, lease)
}

pub(super) fn built(at: i64) -> Event {
    let (manifest, estimate) = (Manifest::default(), Estimate::default());
    let (provider, model) = ("main".into(), "m".into());
    Event::ContextBuilt { at, manifest, estimate, provider, model, duration_ms: 0 }
}

pub(super) fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

/// The model answers, and the run ends with that.
pub(super) async fn answers(world: &World, lease: Lease, usage: Usage, cost_microusd: u64) {
    let at = world.now().await;
    let reply = ReplyFacts {
        kind: ReplyKind::Final,
        text: "Done.".into(),
        extra: None,
        finish_reason: None,
        usage,
        cost_microusd,
        duration_ms: 1,
        message_id: MessageId(Uuid::now_v7()),
        output_fault: None,
        wire: None,
    };
    let replied = Event::ModelReplied { at, reply: Box::new(reply), calls: Vec::new(), more_input: false };
    world.fold(lease, vec![replied], Release::End).await;
}

/// An attempt that wants this many tokens, and no money.
pub(super) fn wants(input_tokens: u64, output_tokens: u64) -> AllowanceWanted {
    AllowanceWanted {
        input_tokens,
        output_tokens: Some(output_tokens),
        cost_microusd: 0,
        output_microusd_per_mtok: None,
    }
}

pub(super) async fn ask(world: &World, lease: Lease, wanted: AllowanceWanted) -> Allowance {
    world.engine.take_allowance(lease, wanted).await.expect("an answer")
}

pub(super) fn used_up(allowance: Allowance) -> Option<DayLimit> {
    match allowance {
        Allowance::UsedUp(limit, left) => {
            assert!((1..=86_400).contains(&left.as_secs()), "{left:?}");
            Some(limit)
        }
        _ => None,
    }
}

/// Everything that was used of late.
pub(super) async fn usage(world: &World, by: UsageBy) -> Vec<UsageRow> {
    let (from, to): (DateTime<Utc>, _) = (Utc::now() - TimeDelta::days(40), Utc::now());
    world.tx().await.usage_list(from, to, by, 1000).await.expect("rows")
}

/// Tokens and money that today's quotas know of.
pub(super) async fn today(world: &World) -> (i64, i64) {
    let quotas = world.tx().await.quota_list().await.expect("quotas");
    let used = |name| quotas.iter().find(|quota| quota.name == name).map_or(0, |quota| quota.used);
    (used("max_tokens_per_day"), used("max_cost_microusd_per_day"))
}
