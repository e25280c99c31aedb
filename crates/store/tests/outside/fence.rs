//! Nothing begins under other rules than those that it was judged by last.

use std::sync::atomic::{AtomicUsize, Ordering};

use answerable_core::id::{GrantId, KeyId};
use answerable_ports::commit::CommitOutcome;
use answerable_store::{Decision, DecisionWord, GrantRevoked, GrantScope, Remember};
use futures::future::join_all;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::Notify;

use crate::hand::{Drafted, begun, new_key, put_policy, revoke_key, sent};
use crate::world::{World, decision};

/// Ways in which rules change.
#[derive(Debug, Clone, Copy)]
enum Change {
    Policy,
    Grant(GrantId),
    Key(KeyId),
}

async fn change(world: &World, change: Change) {
    match change {
        Change::Policy => put_policy(world, json!({"rules": [{"tool": "mail", "effect": "deny"}]})).await,
        Change::Key(key) => revoke_key(world, key).await,
        Change::Grant(grant) => {
            let mut tx = world.tx().await;
            assert_eq!(tx.grant_revoke(grant, "key_1").await.expect("an answer"), GrantRevoked::Now);
            tx.commit().await.expect("committed");
        }
    }
}

/// A grant for the tool `pay`, of an approval that was remembered.
async fn grant(world: &World) -> GrantId {
    let run = world.waiting(&[("pay", json!({"amount": 5}))]).await;
    let approval = world.pending(run).await.remove(0).approval_id;
    let remember = Remember { scope: GrantScope::Tenant, exact_input: false, expires_at: None };
    let said = Decision { remember: Some(remember), ..decision(DecisionWord::Approve) };
    world.decide(approval, said, "user:ann").await.expect("decided");
    let run = world.view(run).await.run_id;
    let pool = &mut world.superuser().await;
    let id = sqlx::query_scalar(
        "SELECT grant_id FROM grants WHERE approval_id IN (SELECT approval_id FROM approvals WHERE run_id = $1)",
    );
    GrantId(id.bind(run).fetch_one(pool).await.expect("a grant"))
}

async fn entries(world: &World) -> i64 {
    let counted = sqlx::query_scalar("SELECT count(*) FROM ledger WHERE tenant_id = $1");
    counted.bind(world.tenant.0).fetch_one(&mut world.superuser().await).await.expect("a count")
}

#[tokio::test]
async fn what_was_judged_before_a_change_does_not_begin_and_is_judged_again() {
    let world = World::new().await;
    let changes =
        [Change::Policy, Change::Key(new_key(&world, None).await), Change::Grant(grant(&world).await)];
    for wanted in changes {
        let (tool, input) = match wanted {
            Change::Grant(_) => ("pay", json!({"amount": 6})),
            _ => ("mail", json!({})),
        };
        let before = entries(&world).await;
        let (hand, drafted) = begun(&world, &[(tool, input.clone())]).await;
        let is_allowed = !matches!(wanted, Change::Policy);
        assert_eq!(drafted.opened().count(), 1, "{wanted:?}");
        change(&world, wanted).await;
        assert_eq!(drafted.send(&world).await.expect("an answer"), CommitOutcome::RulesChanged, "{wanted:?}");
        let status = world.view(hand.lease.run_id).await.status;
        assert_eq!((status.as_str(), entries(&world).await), ("queued", before), "nothing is written");
        let again = hand.first(&[(tool, input)]).await;
        assert_eq!(again.send(&world).await.expect("an answer"), CommitOutcome::Stored);
        let asked = matches!(wanted, Change::Grant(_));
        assert_eq!(world.pending(hand.lease.run_id).await.len(), usize::from(asked), "{wanted:?}");
        assert_eq!(entries(&world).await - before, i64::from(is_allowed && !asked), "{wanted:?}");
        put_policy(&world, json!({})).await;
    }
}

#[tokio::test]
async fn a_call_that_waits_for_its_turn_is_judged_again_when_the_rules_have_changed() {
    let world = World::new().await;
    let (hand, drafted) = begun(&world, &[("mail", json!({"to": 1})), ("mail", json!({"to": 2}))]).await;
    assert_eq!(drafted.send(&world).await.expect("an answer"), CommitOutcome::Stored);
    let first = drafted.opened().next().expect("the first has begun").call;
    assert_eq!(entries(&world).await, 1);
    put_policy(&world, json!({"rules": [{"tool": "mail", "effect": "deny", "reason": "not today"}]})).await;
    let done = || sent(first, hand.at);
    let stale = hand.draft(false, vec![done()]).await.expect("the lease");
    assert_eq!(stale.opened().count(), 1, "the second would begin");
    assert_eq!(stale.send(&world).await.expect("an answer"), CommitOutcome::RulesChanged);
    let drafted = hand.work_again(vec![done()]).await;
    assert_eq!((drafted.opened().count(), entries(&world).await), (0, 1));
    let calls = world.tx().await.call_list(hand.lease.run_id, 1, 1).await.expect("calls");
    let decision = calls[1].decision.as_ref().expect("a decision");
    assert_eq!((&decision["effect"], &decision["reason"]), (&json!("deny"), &json!("not today")));
    assert_eq!((&decision["policy"], &decision["policy_version"]), (&json!("tenant"), &json!("1")));
}

/// Commits that were all drafted before the change race with it. Some are through before it, some come after it for sure.
#[tokio::test]
async fn when_a_change_is_answered_for_nothing_begins_that_was_judged_before_it() {
    const RUNS: usize = 12;
    for wait_for in [0, 1, 4, 8] {
        let world = World::new().await;
        let mut drafts: Vec<Drafted> = Vec::new();
        for _ in 0..RUNS {
            drafts.push(begun(&world, &[("mail", json!({}))]).await.1);
        }
        let last = drafts.split_off(RUNS - 2);
        let (stored, enough) = (AtomicUsize::new(0), Notify::new());
        let commits = drafts.iter().map(|drafted| async {
            let outcome = drafted.send(&world).await.expect("an answer");
            if outcome == CommitOutcome::Stored && stored.fetch_add(1, Ordering::SeqCst) + 1 == wait_for {
                enough.notify_one();
            }
            outcome
        });
        let changed = async {
            if wait_for > 0 {
                enough.notified().await;
            }
            change(&world, Change::Policy).await;
            let began = entries(&world).await;
            // These are sent when it is answered for.
            let late = join_all(last.iter().map(|drafted| drafted.send(&world))).await;
            assert!(
                late.into_iter().all(|outcome| outcome.expect("an answer") == CommitOutcome::RulesChanged)
            );
            began
        };
        let (outcomes, began) = tokio::join!(join_all(commits), changed);
        let began = usize::try_from(began).expect("few");
        assert!(began >= wait_for, "{began} of {outcomes:?}");
        assert_eq!(usize::try_from(entries(&world).await).expect("few"), began, "begun after the change");
        let through = outcomes.iter().filter(|outcome| **outcome == CommitOutcome::Stored).count();
        let refused = outcomes.iter().filter(|outcome| **outcome == CommitOutcome::RulesChanged).count();
        assert_eq!((through, through + refused), (began, RUNS - 2), "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_change_waits_for_calls_that_are_just_beginning() {
    let world = World::new().await;
    let mut superuser = world.superuser().await;
    let mut beginning = superuser.begin().await.expect("a transaction");
    let lock = sqlx::query("SELECT pg_advisory_xact_lock_shared(rules_lock($1))");
    lock.bind(world.tenant.0).execute(&mut *beginning).await.expect("a lock");
    let waits = async {
        let mut look = world.superuser().await;
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut look).await.expect("a count") == 0 {
            tokio::task::yield_now().await;
        }
        let policies = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM tenant_policies");
        assert_eq!(policies.fetch_one(&mut look).await.expect("a count"), 0, "it is not answered for yet");
        // What begins calls may go on to the end of the audit.
        let head = sqlx::query("SELECT FROM audit_heads WHERE tenant_id = $1 FOR UPDATE NOWAIT");
        head.bind(world.tenant.0).execute(&mut *beginning).await.expect("nobody has it");
        beginning.commit().await.expect("begun");
    };
    tokio::join!(change(&world, Change::Policy), waits);
    assert_eq!(world.tx().await.policy_row().await.expect("an answer").map(|row| row.version), Some(1));
}

#[tokio::test]
async fn a_server_that_knows_of_no_numbers_changes_them_all_the_same() {
    let world = World::new().await;
    for _ in 0..2 {
        new_key(&world, None).await;
    }
    grant(&world).await;
    let policy = "INSERT INTO tenant_policies (tenant_id, version, policy) VALUES ($1, 1, '{}')
         ON CONFLICT (tenant_id) DO UPDATE SET version = tenant_policies.version + 1";
    for (role, sql, changes) in [
        ("app", policy, true),
        ("app", policy, true),
        ("app", "DELETE FROM tenant_policies WHERE tenant_id = $1", true),
        ("app", "UPDATE grants SET revoked_at = now() WHERE tenant_id = $1", true),
        ("system", "UPDATE api_keys SET last_used_at = now() WHERE tenant_id = $1", false),
        ("system", "UPDATE api_keys SET revoked_at = now() WHERE tenant_id = $1", true),
        ("system", "DELETE FROM api_keys WHERE tenant_id = $1", true),
        ("app", "UPDATE grants SET revoked_at = revoked_at WHERE tenant_id = $1", false),
    ] {
        let (_hand, drafted) = begun(&world, &[("mail", json!({}))]).await;
        let mut superuser = world.superuser().await;
        let mut tx = superuser.begin().await.expect("a transaction");
        let become_it = AssertSqlSafe(format!("SET LOCAL ROLE answerable_{role}"));
        sqlx::query(become_it).execute(&mut *tx).await.expect("the role");
        if role == "app" {
            let tenant = sqlx::query("SELECT set_config('app.tenant', $1, true)");
            tenant.bind(world.tenant.0.to_string()).execute(&mut *tx).await.expect("set");
        }
        let done = sqlx::query(sql).bind(world.tenant.0).execute(&mut *tx).await.expect("changed");
        assert!(done.rows_affected() > 0, "{sql}");
        tx.commit().await.expect("committed");
        let wanted = if changes { CommitOutcome::RulesChanged } else { CommitOutcome::Stored };
        assert_eq!(drafted.send(&world).await.expect("an answer"), wanted, "{sql}");
    }
}

/// Whoever deletes a tenant has it before all that is its own.
#[tokio::test]
async fn a_change_has_the_tenant_before_what_it_changes() {
    let world = World::new().await;
    put_policy(&world, json!({})).await;
    for wanted in
        [Change::Policy, Change::Key(new_key(&world, None).await), Change::Grant(grant(&world).await)]
    {
        let mut superuser = world.superuser().await;
        let mut deleting = superuser.begin().await.expect("a transaction");
        let lock = sqlx::query("SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE").bind(world.tenant.0);
        lock.execute(&mut *deleting).await.expect("a lock");
        let goes_on = async {
            let mut look = world.superuser().await;
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut look).await.expect("a count") == 0 {
                tokio::task::yield_now().await;
            }
            for table in ["tenant_policies", "grants", "api_keys", "tenant_rules", "audit_heads"] {
                let row =
                    AssertSqlSafe(format!("SELECT FROM {table} WHERE tenant_id = $1 FOR UPDATE NOWAIT"));
                let row = sqlx::query(row).bind(world.tenant.0).execute(&mut *deleting).await;
                assert!(row.is_ok(), "{wanted:?} has {table}");
            }
            deleting.commit().await.expect("given up");
        };
        tokio::join!(change(&world, wanted), goes_on);
    }
}

#[tokio::test]
async fn other_tenants_rules_are_their_own() {
    let mut world = World::new().await;
    let (_hand, drafted) = begun(&world, &[("mail", json!({}))]).await;
    let own = world.tenant;
    let drafted = drafted.clone();
    world.tenant = world.another_tenant().await;
    change(&world, Change::Policy).await;
    world.tenant = own;
    assert_eq!(drafted.send(&world).await.expect("an answer"), CommitOutcome::Stored);
}
