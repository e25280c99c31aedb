//! What was approved is exactly what runs, whatever comes in between: decisions of all kinds, edits, expiries, cancels, other
//! rules, keys and grants that are taken back, and servers that die. Judged by what reached the tools.
//!
//! A life is decided by its seed, though not by the machine's timing. `APPROVAL_SEED` says the first one (`random`: any),
//! `APPROVAL_LIVES` how many are played.

mod changes;
mod forged;
mod judge;
mod people;
mod stage;
mod witness;

use std::env;
use std::time::Duration;

use futures::future::join_all;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::time::timeout;

use stage::Stage;
use witness::{Evidence, Word};

/// Lives of a test.
const LIVES: u64 = 4;
/// Seed of the first: what is played is the same each time.
const FIRST_SEED: u64 = 1;
/// A life that isn't over by then never is: most take some ten seconds.
const PATIENCE: Duration = Duration::from_secs(900);

#[tokio::test]
async fn nothing_runs_but_what_was_approved() {
    let number = |text: String| text.parse::<u64>().expect("a number");
    let first = match env::var("APPROVAL_SEED") {
        Ok(word) if word == "random" => rand::random(),
        Ok(text) => number(text),
        Err(_) => FIRST_SEED,
    };
    let lives = env::var("APPROVAL_LIVES").map_or(LIVES, number);
    let mut tally = Tally::default();
    for seed in (0..lives).map(|n| first.wrapping_add(n)) {
        eprintln!("APPROVAL_SEED={seed} APPROVAL_LIVES=1");
        let evidence = live(seed).await;
        let faults = judge::faults(&evidence);
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n\n"));
        tally.add(&evidence);
    }
    eprintln!("{tally:?}");
    // How much of it is for the machine to say; but a test in which nothing happens finds nothing.
    assert!(tally.approvals > 0 && tally.made > 0, "{tally:?}");
}

async fn live(seed: u64) -> Evidence {
    let stage = Stage::set(seed).await;
    let rng = |actor: u64| StdRng::seed_from_u64(seed ^ (actor << 56));
    let people = join_all((1..=3).map(async |actor| people::decide(&stage, &mut rng(actor)).await));
    let (mut of_changes, mut of_kills) = (rng(8), rng(9));
    let all = async {
        tokio::join!(
            people,
            changes::make(&stage, &mut of_changes),
            changes::kill(&stage, &mut of_kills),
            stage.all_ended(),
        );
    };
    timeout(PATIENCE, all).await.unwrap_or_else(|_| panic!("the life of seed {seed} does not end"));
    stage.told().await;
    let other = stage.servers[1].log_from(0);
    assert!(!other.contains("panicked at"), "{other}");
    stage.evidence().clone()
}

/// What came to pass in all lives.
#[derive(Debug, Default)]
struct Tally {
    made: usize,
    approvals: usize,
    used: usize,
    void: usize,
    refused: usize,
    unheard: usize,
    changes: usize,
}

impl Tally {
    fn add(&mut self, life: &Evidence) {
        let count = |holds: &dyn Fn(&witness::Asked) -> bool| {
            life.approvals.iter().filter(|asked| holds(asked)).count()
        };
        self.made += life.requests.len();
        self.approvals += life.approvals.len();
        self.used += count(&|asked| asked.used);
        self.void += count(&|asked| asked.void);
        self.refused += life.votes.iter().filter(|vote| vote.word != Word::Approve && vote.decides()).count();
        self.unheard += life.votes.iter().filter(|vote| vote.answer.is_none()).count();
        self.changes += life.changes.len();
    }
}
