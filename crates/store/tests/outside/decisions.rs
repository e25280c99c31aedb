//! Deciding approvals.

use answerable_core::id::{ApprovalId, GrantId, RunId};
use answerable_ports::commit::InboundBody;
use answerable_store::{
    Decision, DecisionRefused, DecisionWord, GrantFilter, GrantRevoked, GrantScope, Remember, Voter,
};
use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{World, decision, voter};

async fn asked(world: &World, tool: &str) -> (RunId, Uuid) {
    let run = world.waiting(&[(tool, json!({"amount": 5}))]).await;
    (run, world.pending(run).await.remove(0).approval_id)
}

fn edit(input: Value) -> Decision {
    Decision { input: Some(input), ..decision(DecisionWord::Approve) }
}

#[tokio::test]
async fn of_many_decisions_at_once_one_kind_wins() {
    let world = World::new().await;
    for _ in 0..4 {
        let (run, approval) = asked(&world, "pay").await;
        let words = (0..12).map(|i| if i % 2 == 0 { DecisionWord::Approve } else { DecisionWord::Deny });
        let deciders: Vec<(DecisionWord, String)> =
            words.enumerate().map(|(i, word)| (word, format!("user:{i}"))).collect();
        let outcomes =
            join_all(deciders.iter().map(|(word, by)| world.decide(approval, decision(*word), by))).await;
        let heard = world.inbox(run).await;
        let [InboundBody::Decided { decision: won, by, .. }] = &heard[..] else {
            panic!("decided once: {heard:?}")
        };
        for ((word, _), outcome) in deciders.iter().zip(&outcomes) {
            match outcome {
                Ok(decided) => assert!(word == won && decided.decided_by.as_ref() == Some(by)),
                Err(refused) => assert!(word != won && *refused == DecisionRefused::AlreadyDecided),
            }
        }
        assert_eq!(world.view(run).await.pending_approvals, []);
    }
}

#[tokio::test]
async fn two_different_people_have_to_agree() {
    let world = World::new().await;
    let (run, approval) = asked(&world, "both").await;
    let approve = |by: &'static str| world.decide(approval, decision(DecisionWord::Approve), by);
    for _ in 0..2 {
        assert_eq!(approve("user:ann").await.expect("a vote").status, "pending");
    }
    assert!(world.inbox(run).await.is_empty());
    assert_eq!(
        world.decide(approval, edit(json!({"amount": 6})), "user:ann").await,
        Err(DecisionRefused::OtherVote)
    );
    let other = world.decide(approval, edit(json!({"amount": 6})), "user:cid").await.expect("a vote");
    assert_eq!(other.status, "pending", "approvals of different inputs don't add up");
    let decided = approve("user:bob").await.expect("decided");
    assert_eq!((decided.status.as_str(), decided.votes.as_array().map(Vec::len)), ("approved", Some(3)));
    assert_eq!(world.inbox(run).await.len(), 1);

    let (run, approval) = asked(&world, "both").await;
    world.decide(approval, decision(DecisionWord::Approve), "user:ann").await.expect("a vote");
    let decided = world.decide(approval, decision(DecisionWord::Deny), "user:ann").await.expect("decided");
    assert_eq!(decided.status, "denied", "one denial denies, also of somebody who had approved");
    assert!(matches!(
        &world.inbox(run).await[..],
        [InboundBody::Decided { decision: DecisionWord::Deny, .. }]
    ));
}

#[tokio::test]
async fn an_edit_is_validated_and_judged() {
    let world = World::new().await;
    let (run, approval) = asked(&world, "pay").await;
    for (input, pointer) in
        [(json!({"amount": "5"}), "/input/amount"), (json!({}), "/input"), (json!({"amount": 80}), "/input")]
    {
        let refused = world.decide(approval, edit(input.clone()), "key_1").await;
        let Err(DecisionRefused::Invalid(faults)) = refused else { panic!("{input}: {refused:?}") };
        assert_eq!(faults[0].pointer, pointer, "{input}");
    }
    assert_eq!(world.pending(run).await[0].votes, json!([]));
    let decided = world.decide(approval, edit(json!({"amount": 4})), "key_1").await.expect("decided");
    assert_eq!(
        (decided.input, decided.edited_input),
        (Some(json!({"amount": 5})), Some(json!({"amount": 4})))
    );
    assert!(
        matches!(&world.inbox(run).await[..], [InboundBody::Decided { input: Some(input), .. }] if input["amount"] == 4)
    );
    for (again, wanted) in [
        (edit(json!({"amount": 4})), Ok("approved".to_owned())),
        (decision(DecisionWord::Approve), Ok("approved".to_owned())),
        (edit(json!({"amount": 3})), Err(DecisionRefused::AlreadyDecided)),
        (decision(DecisionWord::Deny), Err(DecisionRefused::AlreadyDecided)),
    ] {
        assert_eq!(world.decide(approval, again, "user:bob").await.map(|decided| decided.status), wanted);
    }
}

#[tokio::test]
async fn what_can_not_be_decided_changes_nothing() {
    let world = World::new().await;
    let (run, approval) = asked(&world, "pay").await;
    let with = |change: &dyn Fn(&mut Decision), word| {
        let mut said = decision(word);
        change(&mut said);
        said
    };
    let thread = Remember { scope: GrantScope::Thread, exact_input: false, expires_at: None };
    let past = Remember { expires_at: Some(chrono::DateTime::UNIX_EPOCH), scope: GrantScope::Run, ..thread };
    for (said, pointer) in [
        (decision(DecisionWord::Answer), "/content"),
        (with(&|said| said.content = Some("x".into()), DecisionWord::Approve), "/content"),
        (with(&|said| said.input = Some(json!({"amount": 5})), DecisionWord::Deny), "/input"),
        (with(&|said| said.remember = Some(thread), DecisionWord::Deny), "/remember"),
        (with(&|said| said.remember = Some(thread), DecisionWord::Approve), "/remember/scope"),
        (with(&|said| said.remember = Some(past), DecisionWord::Approve), "/remember/expires_at"),
    ] {
        let refused = world.decide(approval, said.clone(), "key_1").await;
        let Err(DecisionRefused::Invalid(faults)) = refused else { panic!("{said:?}: {refused:?}") };
        assert_eq!(faults[0].pointer, pointer);
    }
    let stale = with(&|said| said.input_hash = Some("sha256:00".into()), DecisionWord::Deny);
    assert_eq!(world.decide(approval, stale, "key_1").await, Err(DecisionRefused::OtherInput));
    assert_eq!(
        world.decide(Uuid::now_v7(), decision(DecisionWord::Deny), "key_1").await,
        Err(DecisionRefused::NotFound)
    );
    assert_eq!(world.pending(run).await[0].votes, json!([]));
    assert!(world.inbox(run).await.is_empty());
}

#[tokio::test]
async fn an_approval_whose_time_is_over_is_too_late() {
    let world = World::new().await;
    let (run, approval) = asked(&world, "brief").await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(world.pending(run).await.len(), 1, "the engine hasn't looked yet");
    assert_eq!(
        world.decide(approval, decision(DecisionWord::Approve), "key_1").await,
        Err(DecisionRefused::Expired)
    );
    let (run, approval) = asked(&world, "pay").await;
    world.end(run).await;
    assert_eq!(
        world.decide(approval, decision(DecisionWord::Deny), "key_1").await,
        Err(DecisionRefused::Expired)
    );
}

#[tokio::test]
async fn an_approval_can_be_remembered() {
    let world = World::new().await;
    let (run, approval) = asked(&world, "pay").await;
    let remember = Remember { scope: GrantScope::Run, exact_input: true, expires_at: None };
    let said = Decision { remember: Some(remember), ..edit(json!({"amount": 4})) };
    world.decide(approval, said, "user:ann").await.expect("decided");
    let mut tx = world.tx().await;
    let grants = tx.grant_list(&GrantFilter::default(), None, 10).await.expect("grants");
    let [grant] = grants.as_slice() else { panic!("{grants:?}") };
    let ran = answerable_core::json::input_hash(&json!({"amount": 4}));
    assert_eq!(
        (grant.scope.as_str(), grant.matches.as_str(), grant.input_hash.clone()),
        ("run", "exact_input", Some(ran))
    );
    assert_eq!(grant.created_by, "user:ann");
    for wanted in [GrantRevoked::Now, GrantRevoked::Before] {
        assert_eq!(tx.grant_revoke(GrantId(grant.grant_id), "key_1").await.expect("an answer"), wanted);
    }
    assert!(tx.grant_list(&GrantFilter::default(), None, 10).await.expect("grants").is_empty());
    let revoked = GrantFilter { revoked: true, ..GrantFilter::default() };
    assert_eq!(tx.grant_list(&revoked, None, 10).await.expect("grants").len(), 1);
    drop(tx);
    assert_eq!(world.inbox(run).await.len(), 1);
}

#[tokio::test]
async fn what_was_not_remembered_then_is_not_remembered_later() {
    let world = World::new().await;
    let narrow = Remember { scope: GrantScope::Run, exact_input: true, expires_at: None };
    let wide = Remember { scope: GrantScope::Tenant, exact_input: false, ..narrow };
    let soon = Remember { expires_at: Some(chrono::DateTime::<chrono::Utc>::MAX_UTC), ..narrow };
    let approve = |remember| Decision { remember, ..decision(DecisionWord::Approve) };
    for (first, grants) in [(None, 0), (Some(narrow), 1)] {
        let (run, approval) = asked(&world, "pay").await;
        world.decide(approval, approve(first), "user:ann").await.expect("decided");
        for again in [None, Some(narrow), Some(wide), Some(soon)] {
            let wanted = if again.is_none() || again == first {
                Ok("approved".to_owned())
            } else {
                Err(DecisionRefused::AlreadyDecided)
            };
            let said = world.decide(approval, approve(again), "user:bob").await;
            assert_eq!(said.map(|decided| decided.status), wanted, "{first:?} {again:?}");
        }
        let filter = GrantFilter { run_id: Some(run), ..GrantFilter::default() };
        assert_eq!(world.tx().await.grant_list(&filter, None, 10).await.expect("grants").len(), grants);
        assert_eq!(world.inbox(run).await.len(), 1);
    }
}

#[tokio::test]
async fn whoever_has_a_link_has_nothing_remembered() {
    let world = World::new().await;
    let (run, approval) = asked(&world, "pay").await;
    let link = Voter::with_link();
    for scope in [GrantScope::Run, GrantScope::Tenant] {
        let remember = Some(Remember { scope, exact_input: true, expires_at: None });
        let said = Decision { remember, ..decision(DecisionWord::Approve) };
        let refused = world.decide_as(approval, said, &link).await;
        let Err(DecisionRefused::Invalid(faults)) = refused else { panic!("{refused:?}") };
        assert_eq!(faults[0].pointer, "/remember");
    }
    assert_eq!(world.pending(run).await[0].votes, json!([]));
    let decided = world.decide_as(approval, decision(DecisionWord::Approve), &link).await.expect("decided");
    assert_eq!(decided.decided_by.as_deref(), Some("link"));
    let all = GrantFilter { revoked: true, expired: true, ..GrantFilter::default() };
    assert!(world.tx().await.grant_list(&all, None, 10).await.expect("grants").is_empty());
}

#[tokio::test]
async fn many_decisions_in_opposite_orders_do_not_wait_in_a_circle() {
    let world = World::new().await;
    let mut approvals = Vec::new();
    for _ in 0..6 {
        approvals.push(ApprovalId(asked(&world, "pay").await.1));
    }
    let decide_all = |order: Vec<ApprovalId>, by: &'static str| {
        let world = &world;
        async move {
            let mut tx = world.tx().await;
            tx.approvals_lock(&order).await.expect("locked");
            for approval in order {
                tx.approval_decide(approval, &decision(DecisionWord::Approve), &voter(by))
                    .await
                    .expect("an answer")
                    .expect("decided");
            }
            tx.commit().await.expect("committed");
        }
    };
    let backwards = approvals.iter().rev().copied().collect();
    tokio::join!(decide_all(approvals.clone(), "key_1"), decide_all(backwards, "key_2"));
}
