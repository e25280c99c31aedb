//! Random interleavings of what people, servers and time do to calls that need approval, over the real store: whatever is
//! decided, edited, changed, taken back, taken over or cancelled in whatever order, nothing begins that may not.

mod acts;
mod oracle;

use answerable_core::id::{GrantId, KeyId};
use answerable_core::run::{Call, Event, Phase, Stage, Submitted, SubmittedStatus};
use answerable_core::tool::Output;
use answerable_ports::commit::CommitOutcome;
use answerable_ports::{Lease, RunStore as _};
use answerable_store::{Decision, DecisionWord, GrantFilter, GrantScope, Remember, Voter};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::hand::{Drafted, Hand, new_key, put_policy, revoke_key, sent};
use crate::world::{World, decision};
use acts::{Act, Comes, acts, wishes};
use oracle::{CREATORS, Seen, Wish, check};

/// Lives that are tried.
const LIVES: u32 = 80;
/// What a life's approvals have: a minute.
const EXPIRES_MS: i64 = 60_000;
/// Tools: one that runs alone, one with a business key, and one that the run's client answers.
const TOOLS: [&str; 3] = ["mail", "book", "open_door"];

/// A run, its two servers, and what has happened so far.
struct Life<'a> {
    world: &'a World,
    look: &'a mut PgConnection,
    lease: Lease,
    /// The tools and amounts of each step's calls.
    wanted: &'a [(usize, u64)],
    /// What each server holds and has thought of, and whether it heard that the rules had changed.
    servers: [(Lease, Option<Drafted>, bool); 2],
    keys: [KeyId; 3],
    wish: Wish,
    cancelled: bool,
    passed: i64,
    seen: &'a mut Seen,
}

impl<'a> Life<'a> {
    async fn begin(
        world: &'a World,
        look: &'a mut PgConnection,
        wish: Wish,
        wanted: &'a [(usize, u64)],
        seen: &'a mut Seen,
    ) -> Self {
        put_policy(world, wish.policy(EXPIRES_MS)).await;
        let keys = [new_key(world, None).await, new_key(world, None).await, new_key(world, None).await];
        let started =
            |new: &mut answerable_store::NewRun| new.creators = CREATORS.map(str::to_owned).to_vec();
        let run = world.start(started).await.expect("a run");
        let lease = world.claim(run).await;
        let servers = [(lease, None, false), (lease, None, false)];
        let mut life =
            Self { world, look, lease, wanted, servers, keys, wish, cancelled: false, passed: 0, seen };
        let hand = Hand { world, lease, at: world.now().await };
        life.servers[0].1 = Some(hand.first(&life.calls(0)).await);
        life.commit(0).await;
        life
    }

    /// The calls of a step; each has a key of its own.
    fn calls(&self, step: usize) -> Vec<(&'static str, Value)> {
        let call = |(index, (tool, amount)): (usize, &(usize, u64))| {
            (TOOLS[*tool], json!({"amount": amount, "id": format!("{step}.{index}")}))
        };
        self.wanted.iter().enumerate().map(call).collect()
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Work(server, comes) => {
                self.draft(*server, *comes).await;
                self.commit(*server).await;
            }
            Act::Draft(server, comes) => self.draft(*server, *comes).await,
            Act::Commit(server) => self.commit(*server).await,
            Act::TakeOver(server) => self.take_over(*server).await,
            Act::Decide { which, word, edit, who, remember } => {
                self.decide(*which, *word, *edit, *who, *remember).await;
            }
            Act::Policy(wish) => {
                put_policy(self.world, wish.policy(EXPIRES_MS)).await;
                self.wish = *wish;
            }
            Act::RevokeGrant => self.revoke_grant().await,
            Act::RevokeKey(who) => {
                revoke_key(self.world, self.keys[*who]).await;
                self.keys[*who] = new_key(self.world, None).await;
            }
            Act::Cancel => {
                let mut tx = self.world.tx().await;
                tx.run_cancel(self.lease.run_id, None).await.expect("an answer");
                tx.commit().await.expect("committed");
                self.cancelled = true;
            }
            Act::Pass(ms) => self.passed += ms,
        }
    }

    async fn draft(&mut self, server: usize, comes: Comes) {
        let (lease, _, again) = self.servers[server];
        let hand = Hand { world: self.world, lease, at: self.world.now().await + self.passed };
        let comes = if comes.0 { self.comes(&hand).await } else { Vec::new() };
        let drafted = hand.draft(again, comes).await.filter(|drafted| !drafted.commit.events.is_empty());
        self.servers[server].1 = drafted;
    }

    async fn comes(&self, hand: &Hand<'_>) -> Vec<Event> {
        let Some(loaded) = self.world.engine.load(hand.lease).await.expect("an answer") else {
            return Vec::new();
        };
        if loaded.state.phase == Phase::Boundary {
            return hand.step(&self.calls(1)).await.split_off(1);
        }
        let event = |call: &Call| match call.stage {
            Stage::Out { .. } => Some(sent(call.id, hand.at)),
            Stage::Parked { .. } => {
                let submitted = Submitted {
                    status: SubmittedStatus::Succeeded,
                    output: Output::plain("opened"),
                    error_code: None,
                };
                Some(Event::ToolResultSubmitted { at: hand.at, call: call.id, submitted })
            }
            _ => None,
        };
        loaded.state.calls.iter().find_map(event).into_iter().collect()
    }

    async fn commit(&mut self, server: usize) {
        let Some(drafted) = self.servers[server].1.take() else { return };
        // An honest server never runs into the wall behind the rules.
        match drafted.send(self.world).await.expect("an answer") {
            CommitOutcome::Stored => {
                self.servers[server].2 = false;
                check(self.look, &drafted, self.wish, self.cancelled, self.seen).await;
            }
            CommitOutcome::RulesChanged => {
                self.servers[server].2 = true;
                self.seen.fenced += 1;
            }
            CommitOutcome::InboxFirst(_) => self.seen.inbox_first += 1,
            CommitOutcome::LeaseLost => self.seen.lost += 1,
            CommitOutcome::KeyTaken(_) => panic!("no two calls have one key"),
        }
    }

    /// As a claim does it: the epoch rises, and only the new one writes.
    async fn take_over(&mut self, server: usize) {
        let run = self.lease.run_id.0;
        for table in [
            "UPDATE run_states SET epoch = epoch + 1 WHERE run_id = $1",
            "UPDATE run_queue SET epoch = epoch + 1 WHERE run_id = $1",
        ] {
            sqlx::query(table).bind(run).execute(&mut *self.look).await.expect("taken");
        }
        self.lease.epoch += 1;
        self.servers[server] = (self.lease, None, false);
    }

    async fn decide(
        &mut self,
        which: usize,
        word: DecisionWord,
        edit: Option<u64>,
        who: usize,
        remember: bool,
    ) {
        let run = self.lease.run_id;
        let mut asked = self.world.tx().await.approval_list_of_run(run, 0, 50).await.expect("approvals");
        if which > 0 {
            // Rarely one that is settled.
            asked.retain(|approval| approval.status == "pending");
        }
        let Some(approval) = asked.get(which % asked.len().max(1)) else { return };
        let approves = word == DecisionWord::Approve;
        let said = Decision {
            input: edit.filter(|_| approves).map(|amount| json!({"amount": amount, "id": "e"})),
            content: (word == DecisionWord::Answer).then(|| "by hand".into()),
            remember: (remember && approves).then_some(Remember {
                scope: GrantScope::Run,
                exact_input: edit.is_some(),
                expires_at: None,
            }),
            ..decision(word)
        };
        let voter = match who {
            3 => Voter { by: "key_1".into(), key: None },
            4 => Voter::with_link(),
            who => Voter { by: format!("user:{who}"), key: Some(self.keys[who]) },
        };
        let decided = self.world.decide_as(approval.approval_id, said, &voter).await;
        self.seen.decided(decided.as_ref());
    }

    async fn revoke_grant(&mut self) {
        let mut tx = self.world.tx().await;
        let grants = tx.grant_list(&GrantFilter::default(), None, 1).await.expect("grants");
        if let Some(grant) = grants.first() {
            tx.grant_revoke(GrantId(grant.grant_id), "key_1").await.expect("an answer");
            tx.commit().await.expect("committed");
        }
    }
}

#[test]
fn nothing_begins_that_may_not_whatever_happens_in_whatever_order() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut world, mut look) = runtime.block_on(async {
        let world = World::new().await;
        let look = world.superuser().await;
        (world, look)
    });
    let calls = prop::collection::vec((0..TOOLS.len(), 1..80_u64), 1..4);
    // The same lives each time, or as many others as somebody asks for.
    let wanted = std::env::var("LIVES").ok().and_then(|lives| lives.parse().ok());
    let cases = wanted.unwrap_or(LIVES);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = match wanted {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let seen = std::cell::RefCell::new(Seen::default());
    let shared = std::cell::RefCell::new((&mut world, &mut look));
    let tried = runner.run(&(wishes(), calls, acts()), |(wish, calls, acts)| {
        let (mut shared, mut seen) = (shared.borrow_mut(), seen.borrow_mut());
        let (world, look) = &mut *shared;
        runtime.block_on(async {
            world.tenant = world.another_tenant().await;
            let mut life = Life::begin(world, look, wish, &calls, &mut seen).await;
            for act in &acts {
                life.act(act).await;
            }
        });
        Ok(())
    });
    tried.expect("every life keeps the laws");
    seen.borrow().is_worth_it();
}
