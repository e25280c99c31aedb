//! Whose word counts at this moment: those whose keys are valid, who have a name where that matters, and who may.

use answerable_core::id::KeyId;
use answerable_ports::commit::CommitOutcome;
use answerable_store::{
    Covered, Decision, DecisionRefused, DecisionWord, GrantFilter, GrantRecord, GrantScope, Remember, Voter,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{approve, asked, asks, begun_by, fetched, pending, store, tamper};
use crate::hand::{Hand, begun, new_key, put_policy, revoke_key};
use crate::world::{World, decision};

const EXPIRE: &str = "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = $1";

fn with(by: &str, key: KeyId) -> Voter {
    Voter { by: by.into(), key: Some(key) }
}

fn answer() -> Decision {
    Decision { content: Some("done".into()), ..decision(DecisionWord::Answer) }
}

/// Approves, and for all such calls of the tenant.
fn for_all() -> Decision {
    let remember = Remember { scope: GrantScope::Tenant, exact_input: false, expires_at: None };
    Decision { remember: Some(remember), ..approve() }
}

async fn grants(world: &World) -> Vec<GrantRecord> {
    world.tx().await.grant_list(&GrantFilter::default(), None, 10).await.expect("grants")
}

/// How many people another call of `mail` asks; none: a grant let it begin.
async fn asks_now(world: &World) -> usize {
    let (hand, drafted) = begun(world, &[("mail", json!({"to": 2}))]).await;
    store(&drafted, world).await;
    let asked = world.pending(hand.lease.run_id).await.len();
    assert_eq!(begun_by(&hand).await.len(), 1 - asked);
    asked
}

#[tokio::test]
async fn a_key_that_is_gone_decides_nothing() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({}))).await;
    let (hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    let (revoked, expired, good) =
        (new_key(&world, None).await, new_key(&world, None).await, new_key(&world, None).await);
    revoke_key(&world, revoked).await;
    tamper(&world, EXPIRE, expired.0).await;
    for key in [revoked, expired, KeyId(Uuid::now_v7())] {
        for said in [approve(), answer(), decision(DecisionWord::Deny), for_all()] {
            let refused = world.decide_as(asked.approval_id, said, &with("user:ann", key)).await;
            assert_eq!(refused, Err(DecisionRefused::KeyGone));
        }
    }
    assert_eq!((pending(&hand).await.votes, grants(&world).await.len()), (json!([]), 0));
    world.decide_as(asked.approval_id, approve(), &with("user:ann", good)).await.expect("decided");
}

#[tokio::test]
async fn a_grant_lasts_no_longer_than_the_keys_that_it_was_given_with() {
    let world = World::new().await;
    let people = async |approvals: u32| put_policy(&world, asks("mail", approvals, json!({}))).await;
    people(2).await;
    let (ann, bob) = (new_key(&world, None).await, new_key(&world, None).await);
    let (_hand, asked) = asked(&world, "mail", json!({"to": 1})).await;
    for (by, key) in [("user:ann", ann), ("user:bob", bob)] {
        world.decide_as(asked.approval_id, for_all(), &with(by, key)).await.expect("a vote");
    }
    let made = grants(&world).await;
    assert_eq!(made[0].deciders, ["user:ann", "user:bob"]);
    assert_eq!(asks_now(&world).await, 0);
    let (hand, drafted) = begun(&world, &[("mail", json!({"to": 3}))]).await;
    assert_eq!(drafted.opened().count(), 1);
    revoke_key(&world, ann).await;
    assert_eq!(drafted.send(&world).await.expect("an answer"), CommitOutcome::RulesChanged);
    store(&hand.first(&[("mail", json!({"to": 3}))]).await, &world).await;
    assert_eq!((begun_by(&hand).await.len(), pending(&hand).await.required), (0, 2));
    // One of them is enough for less, and the grant tells of both still.
    people(1).await;
    assert_eq!((asks_now(&world).await, &grants(&world).await), (0, &made));
    let told = async || {
        let mut tx = world.tx().await;
        let told = tx.grants_of_tool(Covered::default(), "mail", "a hash").await.expect("grants");
        told.0[0].deciders.clone()
    };
    assert_eq!(told().await, ["user:bob"]);
    tamper(&world, EXPIRE, bob.0).await;
    assert_eq!((asks_now(&world).await, told().await), (1, Vec::new()));
}

#[tokio::test]
async fn an_older_servers_grant_was_decided_by_whoever_made_it() {
    let world = World::new().await;
    let people = async |approvals: u32| put_policy(&world, asks("mail", approvals, json!({}))).await;
    people(1).await;
    let key = new_key(&world, None).await;
    let insert = "INSERT INTO grants (tenant_id, grant_id, tool_name, scope, match, created_by)
         VALUES ($1, gen_random_uuid(), 'mail', 'tenant', 'tool', $2)";
    let insert = sqlx::query(insert).bind(world.tenant.0).bind(key.to_string());
    insert.execute(&mut world.superuser().await).await.expect("as an older server does it");
    assert_eq!(grants(&world).await[0].deciders, [key.to_string()]);
    assert_eq!(asks_now(&world).await, 0);
    people(2).await;
    assert_eq!(asks_now(&world).await, 1);
    people(1).await;
    revoke_key(&world, key).await;
    assert_eq!(asks_now(&world).await, 1);
}

#[tokio::test]
async fn where_several_must_agree_a_link_only_denies() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 2, json!({}))).await;
    let (hand, first) = asked(&world, "mail", json!({"to": 1})).await;
    for said in [approve(), for_all(), answer()] {
        let refused = world.decide_as(first.approval_id, said, &Voter::with_link()).await;
        assert_eq!(refused, Err(DecisionRefused::NobodyInParticular));
    }
    // One that an older server took adds nothing, neither to the call nor to what is remembered.
    let vote = |by: &str| {
        json!({"decision": "approve", "by": by, "at": "", "of": of(&first.input_hash),
        "remember": {"scope": "tenant", "match": "tool", "expires_at": null}})
    };
    let put = sqlx::query("UPDATE approvals SET votes = $2 WHERE approval_id = $1").bind(first.approval_id);
    let put = put.bind(json!([vote("link")])).execute(&mut world.superuser().await).await;
    put.expect("as an older server does it");
    let said = world.decide(first.approval_id, for_all(), "user:ann").await.expect("a vote");
    assert_eq!(said.status, "pending");
    let said = world.decide(first.approval_id, for_all(), "user:bob").await.expect("a vote");
    assert_eq!((said.status.as_str(), grants(&world).await[0].deciders.len()), ("approved", 2));
    hand.work().await;
    assert_eq!(begun_by(&hand).await.len(), 1);
    put_policy(&world, asks("mail", 3, json!({}))).await;
    let (hand, asked) = asked(&world, "mail", json!({"to": 2})).await;
    let denied = world.decide_as(asked.approval_id, decision(DecisionWord::Deny), &Voter::with_link()).await;
    assert_eq!(denied.expect("denied").status, "denied");
    hand.work().await;
    assert_eq!(begun_by(&hand).await, []);
}

/// What a vote for an input agrees on.
fn of(input_hash: &Option<String>) -> String {
    format!("approve {}", input_hash.as_deref().expect("a hash"))
}

#[tokio::test]
async fn a_key_that_started_the_run_in_nobodys_name_names_itself() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({"self_approval": false}))).await;
    let (own, other) = (new_key(&world, None).await, new_key(&world, None).await);
    let begin = async |creators: Value| {
        let creators: Vec<String> = serde_json::from_value(creators).expect("names");
        let run = world.start(|new| new.creators = creators).await.expect("a run");
        let hand = Hand { world: &world, lease: world.claim(run).await, at: world.now().await };
        store(&hand.first(&[("mail", json!({"to": 1}))]).await, &world).await;
        pending(&hand).await.approval_id
    };
    let bare = begin(json!([own])).await;
    for said in [approve(), answer()] {
        let refused = world.decide_as(bare, said, &with("user:ann", own)).await;
        assert_eq!(refused, Err(DecisionRefused::OwnRun));
    }
    assert_eq!(fetched(&world, bare).await.votes, json!([]));
    world.decide_as(bare, approve(), &with("user:ann", other)).await.expect("decided");
    let denied = begin(json!([own])).await;
    world.decide_as(denied, decision(DecisionWord::Deny), &with("user:ann", own)).await.expect("denied");
    // It named somebody: then it speaks for others, too.
    let named = begin(json!([own, "user:bob"])).await;
    let refused = world.decide_as(named, approve(), &with("user:bob", own)).await;
    assert_eq!(refused, Err(DecisionRefused::OwnRun));
    world.decide_as(named, approve(), &with("user:ann", own)).await.expect("decided");
}

#[tokio::test]
async fn a_policy_is_explained_with_the_creators_that_calls_are_judged_with() {
    let world = World::new().await;
    let run = world.start(|new| new.creators = vec!["key_1".into(), "user:ann".into()]).await.expect("a run");
    let told = async || world.tx().await.judged_run(run).await.expect("an answer").expect("the run").creators;
    assert_eq!(told().await, ["key_1", "user:ann"]);
    tamper(&world, "UPDATE runs SET creators = '{}' WHERE run_id = $1", run.0).await;
    assert_eq!(told().await, ["key_1"]);
}

#[tokio::test]
async fn no_more_is_remembered_than_a_run_can_be_judged_by() {
    let world = World::new().await;
    put_policy(&world, asks("mail", 1, json!({}))).await;
    let fill = "INSERT INTO grants (tenant_id, grant_id, tool_name, scope, match, created_by, expires_at)
         SELECT $1, gen_random_uuid(), 'other', 'tenant', 'tool', 'user:old', now() + $3::integer * interval '1 hour'
         FROM generate_series(1, $2)";
    let fill = async |count: i32, hours: i32| {
        let fill = sqlx::query(fill).bind(world.tenant.0).bind(count).bind(hours);
        fill.execute(&mut world.superuser().await).await.expect("filled");
    };
    fill(9_999, 1).await;
    // Those whose time is over don't count.
    fill(10, -1).await;
    let (_, last) = asked(&world, "mail", json!({"to": 1})).await;
    assert_eq!(world.decide(last.approval_id, for_all(), "user:ann").await.expect("room").status, "approved");
    put_policy(&world, asks("pay", 1, json!({}))).await;
    let (hand, more) = asked(&world, "pay", json!({"amount": 1})).await;
    let Err(DecisionRefused::Invalid(faults)) = world.decide(more.approval_id, for_all(), "user:ann").await
    else {
        panic!("remembered");
    };
    assert_eq!(faults[0].pointer, "/remember");
    assert_eq!(pending(&hand).await.votes, json!([]));
    world.decide(more.approval_id, approve(), "user:ann").await.expect("decided without");
}
