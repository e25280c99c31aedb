//! A short round of chaos, so that no change passes without one. `make chaos` is the long one.

use std::path::PathBuf;
use std::time::Duration;

use answerable_chaos::faults;
use answerable_chaos::rounds::{Folder, Options, play, say, tell};

/// Kills, deaths at the points that count most, a stale owner, a lost answer, a database that goes away.
const FAULTS: [&str; 6] = ["kill-some", "crash-commit", "crash-effect", "freeze", "drop-answers", "postgres"];

/// Names the seed of a round that is to be played again.
const SEED: &str = "CHAOS_SEED";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_done_twice() {
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    say(format!("chaos: seed {seed} ({SEED}={seed} plays the same again)"));
    let folder = Folder::make(None).expect("a folder");
    let options = Options {
        seed,
        faults: faults::named(&FAULTS.map(str::to_owned)).expect("known faults"),
        in_order: true,
        program: PathBuf::from(env!("CARGO_BIN_EXE_answerable-chaos")),
        durable: false,
        runs_at_once: 12,
        calm: Duration::from_secs(2),
        brief: true,
        lease: Duration::from_millis(1500),
        ..Options::usual(folder.path()).expect("usual options")
    };
    let outcome = play(&options).await.expect("the stage holds");
    tell(&outcome);
    folder.close(outcome.is_green());
    assert!(outcome.is_green(), "seed {seed}: {}", outcome.red().join(", "));
}
