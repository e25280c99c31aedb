//! Effects of which nobody knows, and people's word on them.

use answerable_core::id::{CallId, LedgerId, RunId};
use answerable_ports::commit::InboundBody;
use answerable_store::{DecisionRefused, DecisionWord, LedgerRecord, Resolve, ResolveRefused};
use serde_json::json;

use crate::world::{World, decision};

async fn uncertain(world: &World, tool: &str) -> (RunId, CallId) {
    let run = world.waiting(&[(tool, json!({}))]).await;
    let call = CallId(world.tx().await.call_list(run, 1, 1).await.expect("calls")[0].call_id);
    world.cut(run, call).await;
    assert_eq!(world.view(run).await.uncertain, [call.0]);
    (run, call)
}

async fn resolve(
    world: &World,
    run: RunId,
    call: CallId,
    applied: bool,
) -> Result<LedgerRecord, ResolveRefused> {
    let word =
        Resolve { applied, content: Some("seen".into()), note: Some("looked".into()), by: "user:ann".into() };
    let mut tx = world.tx().await;
    let entry = tx.ledger_resolve(run, LedgerId(call.0), &word).await.expect("an answer")?;
    tx.commit().await.expect("committed");
    Ok(entry)
}

#[tokio::test]
async fn a_run_that_waits_for_a_word_hears_it() {
    let world = World::new().await;
    for (applied, status, effect, approval) in
        [(true, "succeeded", "committed", "approved"), (false, "failed", "none", "denied")]
    {
        let (run, call) = uncertain(&world, "wire").await;
        assert_eq!(world.view(run).await.status, "waiting_approval");
        let asked = world.pending(run).await;
        assert_eq!(asked[0].kind, "uncertain_effect");
        let entry = resolve(&world, run, call, applied).await.expect("settled");
        assert_eq!((entry.status.as_str(), entry.side_effect.as_str()), (status, effect));
        let resolution = entry.resolution.expect("a resolution");
        assert_eq!((&resolution["by"], &resolution["note"]), (&json!("user:ann"), &json!("looked")));
        assert!(
            resolution["at"].as_str().is_some_and(|at| at.ends_with('Z') && at.len() == 24),
            "{resolution}"
        );
        let mut tx = world.tx().await;
        let decided = tx.approval_list_of_run(run, 0, 10).await.expect("approvals").remove(0);
        assert_eq!((decided.status.as_str(), decided.decided_by.as_deref()), (approval, Some("user:ann")));
        let heard = world.inbox(run).await;
        assert!(
            matches!(&heard[..], [InboundBody::Settled { applied: word, .. }] if *word == applied),
            "{heard:?}"
        );
        assert!(world.view(run).await.uncertain.is_empty());
        assert_eq!(
            resolve(&world, run, call, applied).await.map(|entry| entry.status).as_deref(),
            Ok(status)
        );
        assert_eq!(resolve(&world, run, call, !applied).await, Err(ResolveRefused::AlreadyDecided));
        assert_eq!(world.inbox(run).await.len(), 1);
    }
}

#[tokio::test]
async fn a_decision_settles_the_ledger_too() {
    let world = World::new().await;
    for (word, status) in [
        (DecisionWord::Approve, "succeeded"),
        (DecisionWord::Answer, "succeeded"),
        (DecisionWord::Deny, "failed"),
    ] {
        let (run, call) = uncertain(&world, "wire").await;
        let mut said = decision(word);
        said.content = (word == DecisionWord::Answer).then(|| "receipt 12".into());
        let approval = world.pending(run).await.remove(0).approval_id;
        world.decide(approval, said.clone(), "key_1").await.expect("decided");
        let entry = world.tx().await.ledger_list(run, None, 1).await.expect("a ledger").remove(0);
        assert_eq!(entry.status, status);
        assert!(
            matches!(&world.inbox(run).await[..], [InboundBody::Settled { content, .. }] if *content == said.content)
        );
        let opposite = resolve(&world, run, call, word == DecisionWord::Deny).await;
        assert_eq!(opposite, Err(ResolveRefused::AlreadyDecided));
    }
}

#[tokio::test]
async fn what_is_known_can_not_be_settled_and_what_is_not_can_be_late() {
    let world = World::new().await;
    let run = world.waiting(&[("open_door", json!({}))]).await;
    let call = world.parked(run).await;
    assert_eq!(resolve(&world, run, call, true).await, Err(ResolveRefused::NotUncertain));
    let other = world.waiting(&[("ask_user", json!({}))]).await;
    assert_eq!(resolve(&world, other, call, true).await, Err(ResolveRefused::NotFound), "another run's");
    world.end(run).await;
    assert_eq!(resolve(&world, run, call, true).await.map(|entry| entry.status).as_deref(), Ok("succeeded"));
    assert!(world.inbox(run).await.is_empty(), "an ended run hears nothing");
}

#[tokio::test]
async fn an_effect_that_the_run_went_on_without_is_settled_quietly() {
    let world = World::new().await;
    let (run, call) = uncertain(&world, "mail").await;
    assert!(world.pending(run).await.is_empty());
    resolve(&world, run, call, false).await.expect("settled");
    assert!(world.inbox(run).await.is_empty());
}

#[tokio::test]
async fn a_word_and_a_decision_at_once_agree() {
    let world = World::new().await;
    for _ in 0..6 {
        let (run, call) = uncertain(&world, "wire").await;
        let approval = world.pending(run).await.remove(0).approval_id;
        let (word, decided) = tokio::join!(
            resolve(&world, run, call, true),
            world.decide(approval, decision(DecisionWord::Deny), "key_1")
        );
        assert!(word.is_ok() != decided.is_ok(), "{word:?} {decided:?}");
        if let Err(refused) = decided {
            assert_eq!(refused, DecisionRefused::AlreadyDecided);
        }
        assert_eq!(world.inbox(run).await.len(), 1);
    }
}
