//! What runs that others called are to all else: to whoever stands on their caller, to people, to the day's quota, to replays.

use answerable_core::budget::{Budgets, OnExhausted};
use answerable_core::id::{CallId, RunId};
use answerable_core::json::input_hash;
use answerable_core::ledger::Effect;
use answerable_core::run::{Event, KeyHolder};
use answerable_core::tool::{Attempt, Output, ResultStatus};
use answerable_core::trace::TraceContext;
use answerable_ports::commit::Release;
use answerable_ports::{Lease, RunStore};
use answerable_store::{
    Changer, Decision, DecisionRefused, DecisionWord, Fork, NewHeir, RunDeleted, RunRefused, Stand,
};
use serde_json::json;
use uuid::{NoContext, Timestamp, Uuid};

use crate::children::{called, called_as, ends};
use crate::deleting::delete;
use crate::world::{World, decision, first_step, new_call};

/// A step of a run in which it mails something.
async fn mails(world: &World, lease: Lease) {
    let at = world.now().await;
    let call = new_call(&world.registry(), "mail", &json!({}), at);
    let outcome = Attempt::Succeeded(Output::plain("sent"));
    let sent = Event::ToolAttempted { at, call: call.id, outcome, jitter: 0 };
    let events = [first_step(at, vec![call]), vec![sent]].concat();
    world.fold(lease, events, Release::Keep).await;
}

/// A run that goes on from the beginning of another one.
async fn forked(world: &World, base: RunId) -> RunId {
    let heir = NewHeir {
        run_id: RunId(Uuid::now_v7()),
        stand: Stand::Fork(Fork { after_step: 0, agent: None, repeat_effects: false }),
        messages: Vec::new(),
        trace: TraceContext::of("0123456789abcdef0123456789abcdef".into(), None, false),
        asker: Changer { by: "key_1".into(), is_admin: true },

        creators: Vec::new(),
    };
    let mut tx = world.tx().await;
    tx.heir_create(base, &heir).await.expect("an answer").expect("a fork");
    tx.commit().await.expect("committed");
    heir.run_id
}

/// What a run is told that makes the same call as another one did before.
async fn taken(world: &World, run: RunId) -> KeyHolder {
    let lease = Lease { tenant_id: world.tenant, run_id: run, epoch: 0 };
    let hash = input_hash(&json!({"input": "how many?"}));
    let effect = world.engine.earlier_effect(lease, "ask", &hash).await.expect("an answer");
    effect.expect("it would be made again").expect("it is known")
}

#[tokio::test]
async fn an_agent_that_failed_after_it_made_effects_is_not_called_again() {
    let world = World::new().await;
    let (base, below) = called(&world).await;
    let lease = world.claim(below).await;
    mails(&world, lease).await;
    world.end(base).await;
    ends(&world, lease).await;
    let entry = world.tx().await.ledger_list(base, None, 9).await.expect("entries").remove(0);
    assert_eq!((entry.status.as_str(), entry.side_effect.as_str()), ("failed", Effect::Committed.as_str()));
    let heir = forked(&world, base).await;
    world.end(heir).await;
    let heirs_heir = forked(&world, heir).await;
    for run in [heir, heirs_heir] {
        let holder = taken(&world, run).await;
        assert_eq!((holder.result.status, holder.inherited), (ResultStatus::Failed, true));
        assert!(holder.result.content.contains("stays changed"), "{:?}", holder.result);
    }
    world.end(heirs_heir).await;
    assert_eq!(delete(&world, base).await, RunDeleted::Deleted);
    let holder = taken(&world, heirs_heir).await;
    assert!(holder.result.content.contains("stays changed"), "of a bare entry: {:?}", holder.result);
}

#[tokio::test]
async fn nobody_who_decides_gives_a_run_more_than_its_caller_did() {
    let world = World::new().await;
    let limits = Budgets { max_steps: 1, on_exhausted: OnExhausted::Ask, ..Budgets::default() };
    let (_, below) = called_as(&world, CallId(Uuid::now_v7()), limits).await;
    let lease = world.claim(below).await;
    mails(&world, lease).await;
    let ask = world.pending(below).await.remove(0);
    assert_eq!(ask.kind, "budget");
    let given = world.view(below).await.state.budgets;
    let approve = |input| Decision { input: Some(input), ..decision(DecisionWord::Approve) };
    for (name, above) in [
        ("max_tokens", json!({"max_steps": 2, "max_tokens": given.max_tokens + 1})),
        ("timeout_ms", json!({"max_steps": 2, "timeout_ms": given.timeout_ms + 1})),
    ] {
        let Err(DecisionRefused::Invalid(faults)) =
            world.decide(ask.approval_id, approve(above), "ann").await
        else {
            panic!("more {name} than there is")
        };
        assert_eq!(
            faults.iter().map(|fault| fault.pointer.as_str()).collect::<Vec<_>>(),
            [format!("/input/{name}")]
        );
    }
    // Steps are its own.
    let more = json!({"max_steps": 2, "max_tokens": given.max_tokens});
    let decided = world.decide(ask.approval_id, approve(more), "ann").await.expect("decided");
    assert_eq!(decided.status, "approved");
}

#[tokio::test]
async fn what_is_called_today_is_used_today() {
    let world = World::with_quotas(json!({"max_tokens_per_day": 30})).await;
    let day = 86_400;
    let before = u64::try_from(chrono::Utc::now().timestamp()).expect("a time") - day;
    // A person took until today to approve it.
    let call = CallId(Uuid::new_v7(Timestamp::from_unix(NoContext, before, 0)));
    let (_, below) = called_as(&world, call, Budgets::default()).await;
    world.start(|_| ()).await.expect("its caller used 15");
    mails(&world, world.claim(below).await).await;
    let refused = world.start(|_| ()).await;
    assert!(matches!(refused, Err(RunRefused::TokensUsedUp(_))), "{refused:?}");
}

#[tokio::test]
async fn a_recording_begins_as_deep_as_its_run() {
    let world = World::new().await;
    let (run, below) = called(&world).await;
    mails(&world, world.claim(below).await).await;
    for (run, depth) in [(run, 0), (below, 1)] {
        let begin = world.tx().await.run_begin(run).await.expect("an answer").expect("a beginning");
        assert_eq!(begin.first.depth, depth);
    }
}
