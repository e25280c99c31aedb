//! Many who ask at once.

use answerable_core::budget::DayLimit;
use answerable_ports::{Allowance, AllowanceWanted, Lease, RunStore, Wake};
use futures::future::join_all;
use serde_json::json;

use super::{answers, ask, asking, today, tokens, used_up, wants};
use crate::world::World;

async fn askers(world: &World, count: usize) -> Vec<Lease> {
    let mut leases = Vec::new();
    for _ in 0..count {
        leases.push(asking(world).await.1);
    }
    leases
}

/// Asks until it is given something or nothing is left.
async fn in_the_end(world: &World, lease: Lease, wanted: AllowanceWanted) -> Allowance {
    loop {
        match world.engine.take_allowance(lease, wanted).await {
            Ok(Allowance::Wait) | Err(_) => tokio::task::yield_now().await,
            Ok(allowance) => return allowance,
        }
    }
}

#[tokio::test]
async fn a_hundred_at_the_last_place_are_one() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 15})).await;
    let leases = askers(&world, 100).await;
    let asked = join_all(leases.iter().map(async |lease| {
        loop {
            // Others who ask may hold the lock for too long.
            if let Ok(answer) = world.engine.take_allowance(*lease, wants(10, 5)).await {
                return answer;
            }
        }
    }));
    let asked = asked.await;
    let given = |answer: &&Allowance| **answer == Allowance::Given(Some(5));
    assert_eq!(asked.iter().filter(given).count(), 1, "{asked:?}");
    let waits = asked.iter().filter(|answer| **answer == Allowance::Wait).count();
    assert_eq!(waits, 99, "{asked:?}");
    let first = asked.iter().position(|answer| given(&answer)).expect("one");
    answers(&world, leases[first], tokens(10, 5), 0).await;
    for lease in leases.iter().filter(|lease| **lease != leases[first]) {
        assert_eq!(used_up(ask(&world, *lease, wants(10, 5)).await), Some(DayLimit::Tokens));
    }
}

#[tokio::test]
async fn those_who_race_for_the_last_of_a_day_use_all_of_it_and_no_more() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 1_000})).await;
    let leases = askers(&world, 40).await;
    let lives = leases.iter().map(async |lease| {
        let given = in_the_end(&world, *lease, wants(10, 50)).await;
        let Allowance::Given(Some(most)) = given else { return used_up(given).map(|_| 0) };
        answers(&world, *lease, tokens(10, most), 0).await;
        Some(10 + most)
    });
    let took: Vec<u64> = join_all(lives).await.into_iter().map(|took| took.expect("an end")).collect();
    let (tokens, _) = today(&world).await;
    assert_eq!(u64::try_from(tokens), Ok(took.iter().sum()), "what was taken is what is counted");
    assert!(tokens <= 1_000 && tokens > 1_000 - 11, "{tokens} of 1000: {took:?}");
    assert!(took.contains(&0), "some found nothing left");
}

/// A small die, the same every time.
struct Die(u64);

impl Die {
    fn of(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// One of a crowd, and what it may take.
struct Asker {
    lease: Lease,
    given: Option<(u64, u64)>,
}

const INPUT: u64 = 20;
/// Money of an input and one token; of each token more.
const COST: (u64, u64) = (30, 2);

fn priced(output: u64) -> AllowanceWanted {
    AllowanceWanted {
        input_tokens: INPUT,
        output_tokens: Some(output),
        cost_microusd: COST.0,
        output_microusd_per_mtok: Some(COST.1 * 1_000_000),
    }
}

/// Whatever happens to whom: what is used, and what may still be taken, is never more than there is.
#[tokio::test]
async fn in_any_order_no_more_is_given_than_there_is() {
    const QUOTAS: (i64, i64) = (3_000, 5_000);
    let quotas = json!({"max_tokens_per_day": QUOTAS.0, "max_cost_microusd_per_day": QUOTAS.1});
    let world = World::with_quotas(quotas).await;
    let mut crowd: Vec<Asker> = Vec::new();
    for lease in askers(&world, 6).await {
        crowd.push(Asker { lease, given: None });
    }
    let (mut die, mut seen) = (Die(7), [0_u32; 4]);
    for _ in 0..400 {
        let index = usize::try_from(die.of(6)).expect("few");
        let asker = &mut crowd[index];
        match (asker.given, die.of(4)) {
            (None, _) => match ask(&world, asker.lease, priced(1 + die.of(300))).await {
                Allowance::Given(most) => {
                    asker.given = Some((INPUT, most.expect("a bound")));
                    seen[0] += 1;
                }
                Allowance::Wait => seen[1] += 1,
                Allowance::UsedUp(..) => seen[2] += 1,
                Allowance::Lost => panic!("nobody else has it"),
            },
            (Some(_), 0) => {
                world.engine.hand_back(asker.lease, Wake::Now, i64::MAX).await.expect("given back");
                asker.lease = world.claim(asker.lease.run_id).await;
                asker.given = None;
                seen[3] += 1;
            }
            (Some((input, most)), _) => {
                let output = die.of(most + 1);
                let cost = COST.0 + COST.1 * output.saturating_sub(1);
                answers(&world, asker.lease, tokens(input, output), cost).await;
                *asker = Asker { lease: asking(&world).await.1, given: None };
            }
        }
        let (used, money) = today(&world).await;
        let out = |of: fn(u64, u64) -> u64| -> i64 {
            let all = crowd.iter().filter_map(|asker| asker.given).map(|(input, most)| of(input, most));
            i64::try_from(all.sum::<u64>()).expect("few")
        };
        assert!(used + out(|input, most| input + most) <= QUOTAS.0, "{used} of {}", QUOTAS.0);
        assert!(money + out(|_, most| COST.0 + COST.1 * (most - 1)) <= QUOTAS.1, "{money} of {}", QUOTAS.1);
    }
    assert!(seen.iter().all(|count| *count > 3), "given, waited, used up, lost: {seen:?}");
    let (used, money) = today(&world).await;
    assert!(used > 2_900 || money > 4_900, "little is left: {used}, {money}");
}
