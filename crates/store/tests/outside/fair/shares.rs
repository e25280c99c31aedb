//! Places go by weight; nobody waits for ever, and nobody is owed the past.

use answerable_core::id::RunId;
use answerable_ports::Claimed;
use futures::future::join_all;

use super::model::Owner;
use super::queue::{Queue, claims, limited, of, owner};

/// Holds `places` for a while, with work for all all the time: each round the oldest run ends and the place goes to who is
/// next. Gives how many each holds at the end, and how many it was given in all.
async fn turn_over(
    queue: &mut Queue,
    owners: &[&Owner],
    places: usize,
    rounds: usize,
) -> Vec<(usize, usize)> {
    let server = queue.server();
    let mut held: Vec<Claimed> = claims(&server, places).await;
    let mut given = held.clone();
    for _ in 0..rounds {
        let first = held.remove(0);
        queue.end(RunId(first.lease.run_id.0)).await;
        let next = claims(&server, 1).await;
        assert_eq!(next.len(), 1, "there is work, and a place");
        given.extend_from_slice(&next);
        held.extend(next);
    }
    owners.iter().map(|owner| (of(&held, owner), of(&given, owner))).collect()
}

#[tokio::test]
async fn places_are_held_by_weight() {
    let mut queue = Queue::new().await;
    let (light, heavy) = (owner(1), owner(4));
    for one in [&light, &heavy] {
        queue.tenant(one).await;
        queue.fill(one, 80).await;
    }
    let held = turn_over(&mut queue, &[&light, &heavy], 20, 40).await;
    assert_eq!((held[0].0, held[1].0), (4, 16));
}

#[tokio::test]
async fn with_fewer_places_than_tenants_they_go_round_by_weight() {
    let mut queue = Queue::new().await;
    // The oldest runs are the first one's, and it has the most.
    let owners = [owner(1), owner(1), owner(2)];
    for (one, runs) in owners.iter().zip([60, 30, 30]) {
        queue.tenant(one).await;
        queue.fill(one, runs).await;
    }
    let given = turn_over(&mut queue, &owners.each_ref(), 1, 39).await;
    let given: Vec<usize> = given.into_iter().map(|(_, given)| given).collect();
    assert!(given.iter().zip([10, 10, 20]).all(|(given, fair)| given.abs_diff(fair) <= 1), "{given:?}");
}

#[tokio::test]
async fn who_comes_late_has_the_next_place_and_no_more_than_that() {
    let mut queue = Queue::new().await;
    let (busy, late) = (owner(1), owner(1));
    queue.tenant(&busy).await;
    queue.tenant(&late).await;
    queue.fill(&busy, 60).await;
    let server = queue.server();
    let mut held = claims(&server, 10).await;
    queue.fill(&late, 40).await;
    for round in 1..=10 {
        queue.end(held.remove(0).lease.run_id).await;
        let next = claims(&server, 1).await;
        // It is given places until both hold the same; nothing is made up for beyond that.
        assert_eq!(of(&next, &late), usize::from(round <= 5), "round {round}");
        held.extend(next);
    }
    assert_eq!((of(&held, &busy), of(&held, &late)), (5, 5));
}

#[tokio::test]
async fn cancels_of_one_do_not_hold_up_the_runs_of_another() {
    let mut queue = Queue::new().await;
    let (loud, quiet) = (owner(1), owner(1));
    queue.tenant(&loud).await;
    queue.tenant(&quiet).await;
    queue.fill(&loud, 50).await;
    queue.tell("UPDATE run_queue SET urgent = true WHERE tenant_id = $1", loud.id).await;
    queue.fill(&quiet, 1).await;
    let server = queue.server();
    assert_eq!(of(&claims(&server, 2).await, &quiet), 1);
}

#[tokio::test]
async fn no_more_run_than_may_over_servers_that_claim_at_once() {
    let mut queue = Queue::new().await;
    let owner = limited(7);
    queue.tenant(&owner).await;
    queue.fill(&owner, 60).await;
    let servers: Vec<_> = (0..6).map(|_| queue.server()).collect();
    let claimed = join_all(servers.iter().map(|server| claims(server, 5))).await;
    assert_eq!(claimed.iter().map(Vec::len).sum::<usize>(), 7);
    let more = join_all(servers.iter().map(|server| claims(server, 5))).await;
    assert_eq!(more.iter().map(Vec::len).sum::<usize>(), 0);
    queue.end(claimed.into_iter().flatten().next().expect("a run").lease.run_id).await;
    assert_eq!(claims(&servers[0], 5).await.len(), 1);
}

#[tokio::test]
async fn of_many_tenants_each_has_its_turn() {
    let mut queue = Queue::new().await;
    let owners: Vec<Owner> = (0..600).map(|_| owner(1)).collect();
    for one in &owners {
        queue.tenant(one).await;
        queue.fill(one, 2).await;
    }
    let server = queue.server();
    let mut claimed = Vec::new();
    for _ in 0..18 {
        claimed.extend(claims(&server, 50).await);
    }
    let without = owners.iter().filter(|one| of(&claimed, one) == 0).count();
    assert_eq!(without, 0, "no more than 256 of them are looked at in one go");
}
