//! The inbox: many approvals listed, counted, and decided together.

use answerable_core::id::ApprovalId;
use answerable_store::{
    ApprovalFilter, ApprovalGroup, ApprovalOrder, ApprovalPage, DecisionWord, StoreError,
};
use serde_json::json;
use sqlx::Connection as _;
use uuid::Uuid;

use crate::world::{World, decision, voter};

async fn asked(world: &World) -> Uuid {
    let run = world.waiting(&[("pay", json!({"amount": 5}))]).await;
    world.pending(run).await.remove(0).approval_id
}

fn pending() -> ApprovalFilter {
    ApprovalFilter { status: Some("pending".into()), ..ApprovalFilter::default() }
}

#[tokio::test]
async fn one_of_many_that_is_broken_is_undone_alone() {
    let world = World::new().await;
    let (broken, whole) = (asked(&world).await, asked(&world).await);
    let run = world.tx().await.approval_fetch(ApprovalId(broken)).await.expect("an answer").expect("there");
    let mut superuser = world.superuser().await;
    sqlx::query("UPDATE runs SET policy = '{\"rules\": 7}' WHERE run_id = $1")
        .bind(run.run_id)
        .execute(&mut superuser)
        .await
        .expect("broken");
    superuser.close().await.expect("closed");

    let mut tx = world.tx().await;
    tx.approvals_lock(&[ApprovalId(broken), ApprovalId(whole)]).await.expect("locked");
    let edit =
        answerable_store::Decision { input: Some(json!({"amount": 4})), ..decision(DecisionWord::Approve) };
    let place = tx.savepoint().await.expect("a place");
    tx.approval_decide(ApprovalId(whole), &decision(DecisionWord::Deny), &voter("user:ann"))
        .await
        .expect("an answer")
        .expect("decided");
    tx.go_back(place).await.expect("undone");
    let place = tx.savepoint().await.expect("a place");
    let outcome = tx.approval_decide(ApprovalId(broken), &edit, &voter("user:ann")).await;
    assert!(matches!(outcome, Err(StoreError::Broken(_))), "{outcome:?}");
    tx.go_back(place).await.expect("undone");
    let place = tx.savepoint().await.expect("a place");
    tx.approval_decide(ApprovalId(whole), &decision(DecisionWord::Approve), &voter("user:ann"))
        .await
        .expect("an answer")
        .expect("decided");
    tx.keep(place).await.expect("kept");
    tx.commit().await.expect("committed");

    let mut tx = world.tx().await;
    let mut status = async |approval: Uuid| {
        let found = tx.approval_fetch(ApprovalId(approval)).await.expect("an answer").expect("there");
        (found.status, found.votes.as_array().map(Vec::len))
    };
    assert_eq!(status(broken).await, ("pending".to_owned(), Some(0)));
    assert_eq!(status(whole).await, ("approved".to_owned(), Some(1)));
}

#[tokio::test]
async fn a_list_goes_on_where_it_was_in_either_order() {
    let world = World::new().await;
    let mut asked_for = Vec::new();
    for _ in 0..5 {
        asked_for.push(asked(&world).await);
    }
    // Two of them are over at the very same moment.
    let mut superuser = world.superuser().await;
    let expiry = "UPDATE approvals SET expires_at = now() + (CASE WHEN approval_id = ANY($1) THEN 1 ELSE 2 + ord END) * interval '1 day'";
    sqlx::query(expiry).bind(&asked_for[2..4]).execute(&mut superuser).await.expect("changed");
    let mut expiring = vec![asked_for[2], asked_for[3]];
    expiring.extend([asked_for[0], asked_for[1], asked_for[4]]);
    let newest: Vec<Uuid> = asked_for.iter().rev().copied().collect();
    assert_eq!(all(&world, ApprovalOrder::Newest(None)).await, newest);
    assert_eq!(all(&world, ApprovalOrder::Expiring(None)).await, expiring);
}

/// What is pending, page by page.
async fn all(world: &World, mut order: ApprovalOrder) -> Vec<Uuid> {
    let mut seen = Vec::new();
    loop {
        let page = world.tx().await.approval_list(&pending(), order, 2).await.expect("a page");
        assert!(page.approvals.len() == 2 || page.next.is_none());
        seen.extend(ids(&page));
        let Some((expires_at, ord)) = page.next else { return seen };
        order = match order {
            ApprovalOrder::Newest(_) => ApprovalOrder::Newest(Some(ord)),
            ApprovalOrder::Expiring(_) => ApprovalOrder::Expiring(Some((expires_at, ord))),
        };
    }
}

fn ids(page: &ApprovalPage) -> Vec<Uuid> {
    page.approvals.iter().map(|found| found.approval_id).collect()
}

/// Makes a page of two, and changes approvals between looking their places up and fetching them.
async fn page_meanwhile(world: &World, change: &'static str, approvals: &[Uuid]) -> ApprovalPage {
    let mut between = world.superuser().await;
    // Places are looked up without the calls, and what is shown isn't.
    let mut holding = between.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE calls IN ACCESS EXCLUSIVE MODE").execute(&mut *holding).await.expect("held");
    let mut tx = world.tx().await;
    let filter = pending();
    let listing = tx.approval_list(&filter, ApprovalOrder::Newest(None), 2);
    let changing = async {
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'calls'::regclass AND NOT granted)";
        while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut *holding).await.expect("locks") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        sqlx::query(change).bind(approvals).execute(&mut *holding).await.expect("changed");
        holding.commit().await.expect("let go");
    };
    let (page, ()) = futures::future::join(listing, changing).await;
    page.expect("a page")
}

#[tokio::test]
async fn a_list_goes_on_though_its_page_was_decided_while_it_was_made() {
    let world = World::new().await;
    let mut asked_for = Vec::new();
    for _ in 0..5 {
        asked_for.push(asked(&world).await);
    }
    let deny = "UPDATE approvals SET status = 'denied', decided_at = now(), decided_by = 'user:ann' WHERE approval_id = ANY($1)";
    let page = page_meanwhile(&world, deny, &asked_for[4..]).await;
    assert_eq!(ids(&page), [asked_for[3]]);
    let next = ApprovalOrder::Newest(page.next.map(|(_, ord)| ord));
    let rest = world.tx().await.approval_list(&pending(), next, 2).await.expect("a page");
    assert_eq!((ids(&rest), rest.next.is_some()), (vec![asked_for[2], asked_for[1]], true));
    let delete = "DELETE FROM approvals WHERE approval_id = ANY($1)";
    let page = page_meanwhile(&world, delete, &asked_for[2..4]).await;
    assert_eq!((ids(&page), page.next.is_some()), (vec![], true));
    let next = ApprovalOrder::Newest(page.next.map(|(_, ord)| ord));
    let rest = world.tx().await.approval_list(&pending(), next, 2).await.expect("a page");
    assert_eq!((ids(&rest), rest.next), (vec![asked_for[1], asked_for[0]], None));
}

#[tokio::test]
async fn counting_has_an_end() {
    let world = World::new().await;
    let one = asked(&world).await;
    let mut superuser = world.superuser().await;
    let many = "INSERT INTO approvals (tenant_id, approval_id, run_id, step, kind, tool_name, reason, status, required, expires_at,
                    created_at, decided_at, decided_by)
                SELECT tenant_id, gen_random_uuid(), run_id, step, 'budget', NULL, reason, 'expired', 1, now(), now(), now(), 'expiry'
                FROM approvals, generate_series(1, 100001) WHERE approval_id = $1";
    sqlx::query(many).bind(one).execute(&mut superuser).await.expect("many");
    let mut tx = world.tx().await;
    let all = tx.approval_counts(&ApprovalFilter::default(), None).await.expect("counts");
    assert_eq!((all.total, all.more, all.groups), (100_000, true, Vec::new()));
    let open = tx.approval_counts(&pending(), Some(ApprovalGroup::ToolName)).await.expect("counts");
    assert_eq!((open.total, open.more, open.groups), (1, false, vec![(Some("pay".to_owned()), 1)]));
    let nothing = ApprovalFilter { tool_name: Some("mail".into()), ..pending() };
    assert_eq!(tx.approval_counts(&nothing, Some(ApprovalGroup::Kind)).await.expect("counts").total, 0);
    let listed = tx.approval_list(&pending(), ApprovalOrder::Expiring(None), 10).await.expect("a list");
    assert_eq!((ids(&listed), listed.next), (vec![one], None));
}
