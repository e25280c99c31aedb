//! Tenants who can be given nothing stand in nobody's way, however many they are.

use answerable_ports::{Room, RunStore as _};
use uuid::Uuid;

use super::model::{Owner, Queued};
use super::queue::{LONG, Queue, claims, limited, owner};

/// More than one claim chooses from.
const MANY: usize = 300;
/// So many claims look at them all.
const LOOKS: usize = 2;
/// More than any server understands.
const NEWER: i16 = 999;

/// Whoever is looked at last.
fn last_one() -> Owner {
    Owner { id: Uuid::max(), ..owner(1) }
}

/// Many with runs that are due: every other one is suspended, the others have their only place taken.
async fn stuck(queue: &mut Queue) -> Vec<Owner> {
    let mut owners = Vec::new();
    for number in 0..MANY {
        let one = if number % 2 == 0 { Owner { suspended: true, ..owner(1) } } else { limited(1) };
        queue.tenant(&one).await;
        queue.put(&Queued { held: !one.suspended, ..Queued::plain(one.id) }).await;
        queue.fill(&one, 1).await;
        owners.push(one);
    }
    owners
}

#[tokio::test]
async fn who_can_be_given_nothing_is_passed_over() {
    let mut queue = Queue::new().await;
    let owners = stuck(&mut queue).await;
    let late = last_one();
    queue.tenant(&late).await;
    queue.fill(&late, 1).await;
    let server = queue.server();
    let claimed = claims(&server, 4).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.lease.tenant_id.0).collect::<Vec<_>>(), [late.id]);

    // What was cancelled needs no place, and rests all the same while its tenant is suspended.
    for (number, one) in owners.iter().enumerate().take(2) {
        assert_eq!(one.suspended, number == 0);
        queue.put(&Queued { urgent: true, ..Queued::plain(one.id) }).await;
    }
    for pressing in [true, false] {
        let room = Room { limit: 4, pressing, except: &[] };
        let claimed = server.claim(Uuid::now_v7(), &room, LONG).await.expect("claims");
        let of: Vec<Uuid> = claimed.runs.iter().map(|claimed| claimed.lease.tenant_id.0).collect();
        // Taken by the first of the two.
        assert_eq!(of, if pressing { vec![owners[1].id] } else { vec![] });
        assert!(!claimed.more, "all of them were looked at");
    }
}

#[tokio::test]
async fn a_server_looks_on_until_all_were_looked_at() {
    let mut queue = Queue::new().await;
    for _ in 0..MANY {
        let one = owner(1);
        queue.tenant(&one).await;
        queue.put(&Queued { needs: NEWER, ..Queued::plain(one.id) }).await;
    }
    let late = last_one();
    queue.tenant(&late).await;
    let server = queue.server();
    let room = Room { limit: 4, ..Room::default() };
    for has_work in [true, false, true] {
        if has_work {
            queue.fill(&late, 1).await;
        }
        let mut taken = 0;
        for look in 1..=LOOKS {
            let claimed = server.claim(Uuid::now_v7(), &room, LONG).await.expect("claims");
            taken += claimed.runs.len();
            assert_eq!(claimed.more, look < LOOKS, "look {look}");
        }
        assert_eq!(taken, usize::from(has_work));
    }
}
