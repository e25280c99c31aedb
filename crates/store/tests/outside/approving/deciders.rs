//! Those who approved are those who must, at the moment when the call begins.

use answerable_core::id::ApprovalId;
use answerable_core::json::input_hash;
use answerable_ports::commit::{CommitOutcome, InboundBody};
use answerable_ports::store::Decider;
use answerable_store::{Decision, DecisionRefused, DecisionWord, Voter};
use chrono::DateTime;
use serde_json::json;

use super::{approve, asked, asks, begun_by, edit, fetched, pending, store, tamper};
use crate::hand::{Gate, Hand, new_key, put_policy, revoke_key};
use crate::world::{World, decision, voter};

#[tokio::test]
async fn an_approval_that_is_not_enough_by_now_is_void_and_people_are_asked_anew() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({}))).await;
    let (hand, first) = asked(&world, "mail", json!({"to": 1})).await;
    assert!(first.self_approval && first.tool_version.is_some(), "{first:?}");
    world.decide(first.approval_id, approve(), "user:ann").await.expect("decided");
    let drafted = hand.draft(false, Vec::new()).await.expect("the lease");
    assert_eq!(drafted.opened().count(), 1);
    put_policy(&world, asks("mail", 2, json!({"self_approval": false}))).await;
    assert_eq!(drafted.send(&world).await.expect("an answer"), CommitOutcome::RulesChanged);
    hand.work().await;
    let second = pending(&hand).await;
    assert_eq!((second.required, second.self_approval, &second.input), (2, false, &first.input));
    let void = fetched(&world, first.approval_id).await;
    assert_eq!((void.status.as_str(), void.used_at, void.voided_at.is_some()), ("approved", None, true));
    assert!(void.void_reason.is_some_and(|why| why.contains("others by now")));
    // The first is over, whatever is said about it.
    let again = world.decide(first.approval_id, approve(), "user:bob").await.expect("the same");
    assert_eq!(again.voided_at, void.voided_at);
    let other = world.decide(first.approval_id, decision(DecisionWord::Deny), "user:bob").await;
    assert_eq!(other, Err(DecisionRefused::AlreadyDecided));
    assert!(world.inbox(hand.lease.run_id).await.is_empty());
    for by in ["user:ann", "user:bob"] {
        world.decide(second.approval_id, approve(), by).await.expect("a vote");
    }
    hand.work().await;
    assert_eq!(begun_by(&hand).await, [(second.input_hash.expect("a hash"), Some(second.approval_id))]);
    assert!(fetched(&world, second.approval_id).await.used_at.is_some());
}

#[tokio::test]
async fn an_edit_that_asks_for_more_people_is_what_they_are_asked_about() {
    let world = World::new().await;
    let large = |approvals: u32| {
        json!({"rules": [{"tool": "mail", "effect": "ask"}, {"tool": "mail", "effect": "ask", "approvals": approvals,
            "input": {"properties": {"amount": {"minimum": 50}}}}]})
    };
    put_policy(&world, large(2)).await;
    let amount = |amount: u64| json!({"amount": amount});
    let (hand, first) = asked(&world, "mail", amount(5)).await;
    assert_eq!(first.required, 1);
    world.decide(first.approval_id, edit(amount(60)), "user:ann").await.expect("decided");
    hand.work().await;
    let second = pending(&hand).await;
    assert_eq!((second.required, &second.input), (2, &Some(amount(60))));
    assert_eq!(second.input_hash, Some(input_hash(&amount(60))));
    for by in ["user:ann", "user:bob"] {
        world.decide(second.approval_id, edit(amount(70)), by).await.expect("a vote");
    }
    put_policy(&world, large(3)).await;
    hand.work().await;
    let third = pending(&hand).await;
    assert_eq!((third.required, &third.input), (3, &Some(amount(70))));
    assert_eq!(begun_by(&hand).await, []);
    for by in ["user:ann", "user:bob", "user:cid"] {
        world.decide(third.approval_id, approve(), by).await.expect("a vote");
    }
    hand.work().await;
    assert_eq!(begun_by(&hand).await, [(input_hash(&amount(70)), Some(third.approval_id))]);
    // Each shows what it asked, and what came of it.
    for (approval, asked, edited) in
        [(first, 5, Some(amount(60))), (second, 60, Some(amount(70))), (third, 70, None)]
    {
        let shown = fetched(&world, approval.approval_id).await;
        assert_eq!((shown.input, shown.edited_input), (Some(amount(asked)), edited));
        assert_eq!(shown.input_hash, Some(input_hash(&amount(asked))));
    }
}

#[tokio::test]
async fn it_is_known_when_people_approved_and_how_long_their_word_counts() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 2, json!({}))).await;
    let now = world.now().await;
    let (brief, kept) = (
        new_key(&world, DateTime::from_timestamp_millis(now + 3_600_000)).await,
        new_key(&world, None).await,
    );
    let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    for (by, key) in [("user:ann", brief), ("user:bob", kept)] {
        let voter = Voter { by: by.into(), key: Some(key) };
        world.decide_as(asked.approval_id, approve(), &voter).await.expect("a vote");
    }
    let rules = Gate::of(&world, hand.lease.run_id).await.rules;
    let decider = |by: &str, until| Decider { by: by.into(), until };
    let wanted = [decider("user:ann", Some(now + 3_600_000)), decider("user:bob", None)];
    assert_eq!(rules.deciders[&ApprovalId(asked.approval_id)], wanted);
    let heard = world.inbox(hand.lease.run_id).await;
    let [InboundBody::Decided { at: Some(at), .. }] = heard[..] else { panic!("{heard:?}") };
    assert!((now..=world.now().await).contains(&at));
}

#[tokio::test]
async fn votes_with_keys_that_are_gone_do_not_count() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 2, json!({}))).await;
    let (lost, kept, brief) =
        (new_key(&world, None).await, new_key(&world, None).await, new_key(&world, None).await);
    let with = |by: &str, key| Voter { by: by.into(), key: Some(key) };
    let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    let vote = async |by: &str, key| {
        world.decide_as(asked.approval_id, approve(), &with(by, key)).await.expect("a vote")
    };
    vote("user:ann", lost).await;
    vote("user:dan", brief).await;
    // Together they were enough.
    assert_eq!(fetched(&world, asked.approval_id).await.status, "approved");
    tamper(&world, "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = $1", brief.0)
        .await;
    hand.work().await;
    let again = pending(&hand).await;
    assert!(fetched(&world, asked.approval_id).await.voided_at.is_some(), "one of them has gone");
    let vote = async |by: &str, key| {
        world.decide_as(again.approval_id, approve(), &with(by, key)).await.expect("a vote")
    };
    vote("user:ann", lost).await;
    revoke_key(&world, lost).await;
    assert_eq!(vote("user:bob", kept).await.status, "pending", "ann's vote is gone with its key");
    let decided = vote("user:ann", kept).await;
    assert_eq!((decided.status.as_str(), decided.votes.as_array().map(Vec::len)), ("approved", Some(3)));
    // And between the look and the write.
    let drafted = hand.draft(false, Vec::new()).await.expect("the lease");
    assert_eq!(drafted.opened().count(), 1);
    revoke_key(&world, kept).await;
    assert_eq!(drafted.send(&world).await.expect("an answer"), CommitOutcome::RulesChanged);
    hand.work().await;
    assert!(fetched(&world, again.approval_id).await.voided_at.is_some());
    assert_eq!((begun_by(&hand).await, pending(&hand).await.required), (Vec::new(), 2));
}

#[tokio::test]
async fn a_vote_for_another_edit_is_no_vote_for_this_one() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 2, json!({}))).await;
    let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    world.decide(asked.approval_id, edit(json!({"to": 3})), "user:cid").await.expect("a vote");
    for by in ["user:ann", "user:bob"] {
        world.decide(asked.approval_id, edit(json!({"to": 2})), by).await.expect("a vote");
    }
    put_policy(&world, asks("mail", 3, json!({}))).await;
    hand.work().await;
    assert_eq!((begun_by(&hand).await, pending(&hand).await.required), (Vec::new(), 3));
}

#[tokio::test]
async fn whoever_started_the_run_may_deny_but_not_approve_where_a_rule_says_so() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({"self_approval": false}))).await;
    let answer = Decision { content: Some("done".into()), ..decision(DecisionWord::Answer) };
    let begin = async || {
        let run =
            world.start(|new| new.creators = vec!["key_1".into(), "user:ann".into()]).await.expect("a run");
        let hand = Hand { world: &world, lease: world.claim(run).await, at: world.now().await };
        store(&hand.first(&[("mail", json!({"to": 1}))]).await, &world).await;
        let approval = pending(&hand).await.approval_id;
        (hand, approval)
    };
    let (hand, approval) = begin().await;
    for said in [approve(), edit(json!({"to": 2})), answer] {
        for by in ["key_1", "user:ann"] {
            let refused = world.decide(approval, said.clone(), by).await;
            assert_eq!(refused, Err(DecisionRefused::OwnRun), "{by}: {said:?}");
        }
        let refused = world.decide_as(approval, said, &Voter::with_link()).await;
        assert_eq!(refused, Err(DecisionRefused::NobodyInParticular));
    }
    assert_eq!(pending(&hand).await.votes, json!([]));
    world.decide(approval, approve(), "user:bob").await.expect("decided");
    hand.work().await;
    assert_eq!(begun_by(&hand).await.len(), 1);
    for denying in [voter("key_1"), voter("user:ann"), Voter::with_link()] {
        let (hand, approval) = begin().await;
        world.decide_as(approval, decision(DecisionWord::Deny), &denying).await.expect("denied");
        hand.work().await;
        assert_eq!(begun_by(&hand).await, []);
    }
    // A rule that came after they had approved.
    put_policy(&world, asks("mail", 1, json!({}))).await;
    let (hand, approval) = begin().await;
    world.decide(approval, approve(), "user:ann").await.expect("decided");
    put_policy(&world, asks("mail", 1, json!({"self_approval": false}))).await;
    hand.work().await;
    let again = pending(&hand).await;
    assert!(!again.self_approval);
    assert_eq!(world.decide(again.approval_id, approve(), "user:ann").await, Err(DecisionRefused::OwnRun));
}

#[tokio::test]
async fn an_older_run_was_started_by_its_key() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({"self_approval": false}))).await;
    let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    tamper(&world, "UPDATE runs SET creators = '{}' WHERE run_id = $1", hand.lease.run_id.0).await;
    assert_eq!(world.decide(asked.approval_id, approve(), "key_1").await, Err(DecisionRefused::OwnRun));
    world.decide(asked.approval_id, approve(), "user:bob").await.expect("decided");
    hand.work().await;
    assert_eq!(begun_by(&hand).await.len(), 1);
}
