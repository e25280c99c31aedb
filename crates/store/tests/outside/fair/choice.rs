//! A claim takes what the plain rule says, whatever is in the queue.

use std::collections::BTreeSet;

use answerable_core::id::TenantId;
use answerable_ports::Room;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use super::model::{Owner, Queued, Wanted, next};
use super::queue::{Queue, claims_in};

/// Queues that are tried.
const QUEUES: usize = 60;
/// What this server understands; more than any run that it should take needs.
const UNDERSTOOD: i16 = 2;
const NEWER: i16 = 999;

fn owners() -> impl Strategy<Value = Vec<Owner>> {
    let owner = (1_i64..5, prop::option::weighted(0.4, 1_i64..5), prop::bool::weighted(0.15));
    let owner =
        owner.prop_map(|(weight, max, suspended)| Owner { id: Uuid::new_v4(), weight, max, suspended });
    prop::collection::vec(owner, 1..5)
}

/// A run of one of the owners, by its number.
fn run() -> impl Strategy<Value = (usize, Queued)> {
    let line = (prop::option::weighted(0.3, 1..4), prop::option::weighted(0.3, "[ab]"));
    let marks = (
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    );
    let times = (
        prop::option::weighted(0.95, prop_oneof![4 => -900..-10, 1 => 600..900]),
        prop::option::weighted(
            0.5,
            prop_oneof![
        1 => -900..-10, 4 => 600..900],
        ),
    );
    (0..5_usize, line, -1_i16..2, times, marks, prop::bool::weighted(0.1)).prop_map(
        |(owner, (thread, key), priority, (wakes, expires), (started, ended, urgent, held), newer)| {
            // No two wait equally long, so that one order is right.
            let plain = Queued::plain(Uuid::nil());
            let wakes = wakes.map(|wakes| f64::from(wakes) + plain.ord as f64 / 10_000.0);
            let needs = if newer { NEWER } else { UNDERSTOOD };
            let expires = expires.map(f64::from);
            (
                owner,
                Queued {
                    thread,
                    key,
                    priority,
                    wakes,
                    expires,
                    started,
                    urgent,
                    needs,
                    // Ended runs are kept for their late calls alone.
                    ended,
                    held: held || ended,
                    ..plain
                },
            )
        },
    )
}

fn wanted() -> impl Strategy<Value = (usize, bool, prop::sample::Index, bool)> {
    (1..12_usize, prop::bool::weighted(0.2), any::<prop::sample::Index>(), prop::bool::weighted(0.2))
}

#[tokio::test]
async fn a_claim_takes_what_the_plain_rule_says() {
    let mut queue = Queue::new().await;
    let mut chance = TestRunner::deterministic();
    let strategy = (owners(), prop::collection::vec(run(), 0..40), wanted());
    let mut taken = 0;
    for number in 0..QUEUES {
        let (owners, runs, (limit, pressing, who, passes_one_over)) =
            strategy.new_tree(&mut chance).expect("a queue").current();
        queue.clear().await;
        for owner in &owners {
            queue.tenant(owner).await;
        }
        let runs: Vec<Queued> =
            runs.into_iter().map(|(n, run)| Queued { owner: owners[n % owners.len()].id, ..run }).collect();
        for run in &runs {
            queue.put(run).await;
        }
        let except: Vec<Uuid> = if passes_one_over { vec![who.get(&owners).id] } else { Vec::new() };
        let wanted = Wanted { limit, pressing, except, understood: UNDERSTOOD };
        let except: Vec<TenantId> = wanted.except.iter().copied().map(TenantId).collect();
        let server = queue.server();
        let claimed = claims_in(&server, &Room { limit, pressing, except: &except }).await;
        let found: BTreeSet<Uuid> = claimed.iter().map(|claimed| claimed.lease.run_id.0).collect();
        let right = next(&owners, &runs, &wanted);
        assert_eq!(found, right, "queue {number}: {wanted:#?}\n{owners:#?}\n{runs:#?}");
        for claimed in claimed {
            let run = runs.iter().find(|run| run.id == claimed.lease.run_id.0).expect("it is there");
            assert_eq!(claimed.may_start, run.may_start(&runs), "queue {number}: {run:#?}");
            taken += 1;
        }
    }
    assert!(taken > QUEUES, "most of them had something to take: {taken}");
}
