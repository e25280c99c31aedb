//! The mutation check: a suite that stays green without a guard does not test it.

use std::time::Duration;

use super::{Folder, Options, Outcome, play, say, tell};
use crate::faults;
use crate::stage::{Error, Result};

/// Seeds that a mutant may survive before it counts as a survivor.
const TRIES: u64 = 3;

/// A guard, what it is there for, and who must notice that it is gone.
struct Mutant {
    guard: &'static str,
    faults: &'static [&'static str],
    /// One of these checks must be red.
    expected: &'static [&'static str],
    /// Short, so that slow calls outlast it.
    lease_ms: u64,
}

const fn mutant(
    guard: &'static str,
    faults: &'static [&'static str],
    expected: &'static [&'static str],
    lease_ms: u64,
) -> Mutant {
    Mutant { guard, faults, expected, lease_ms }
}

const MUTANTS: [Mutant; 7] = [
    mutant("fence", &["late", "freeze", "late"], &["stale", "terminal", "repeated", "ledger"], 1500),
    mutant("claim_lock", &[], &["exact", "stale"], 3000),
    mutant("business_keys", &[], &["repeated"], 3000),
    mutant("idempotency_keys", &["cut", "kill-one"], &["accepted"], 3000),
    mutant("intent_first", &["crash-effect", "kill-some"], &["repeated"], 1500),
    mutant("recovery_counter", &["poison"], &["crash_loop", "fault"], 1500),
    mutant("self_fence", &["black-hole", "black-hole", "black-hole"], &["stale"], 1200),
];

/// Plays a round for each guard that is left out, and the same with all guards; prints who noticed what. True if every
/// mutant was caught for the right reason and nothing else was.
///
/// # Errors
/// The stage itself broke.
pub async fn check(only: Option<&str>, seed: u64) -> Result<bool> {
    say(format!("chaos: seed {seed}, mutants"));
    let chosen: Vec<&Mutant> =
        MUTANTS.iter().filter(|mutant| only.is_none_or(|only| only == mutant.guard)).collect();
    if chosen.is_empty() {
        return Err(Error::says("there is no such guard"));
    }
    let mut table = Vec::new();
    let mut good = true;
    for mutant in chosen {
        let (caught, words) = caught(mutant, seed).await?;
        let (sound, folder) = round(mutant, seed, false).await?;
        folder.close(sound.is_green());
        if !sound.is_green() {
            tell(&sound);
        }
        good &= caught && sound.is_green();
        let with = if sound.is_green() { "green" } else { "RED" };
        table.push(format!("{:<18} {words:<44} {with}", mutant.guard));
    }
    say(format!("{:<18} {:<44} with all guards", "without", "caught by"));
    table.iter().for_each(say);
    Ok(good)
}

async fn caught(mutant: &Mutant, seed: u64) -> Result<(bool, String)> {
    let mut seen = Vec::new();
    for n in 0..TRIES {
        let (outcome, folder) = round(mutant, seed.wrapping_add(n), true).await?;
        folder.close(true);
        let red = outcome.red();
        if let Some(check) =
            mutant.expected.iter().find(|expected| red.iter().any(|check| check == *expected))
        {
            return Ok((true, format!("{check} ({})", red.join(", "))));
        }
        seen.extend(red);
    }
    Ok((
        false,
        if seen.is_empty() { "SURVIVED".to_owned() } else { format!("WRONG REASON: {}", seen.join(", ")) },
    ))
}

async fn round(mutant: &Mutant, seed: u64, broken: bool) -> Result<(Outcome, Folder)> {
    let folder = Folder::make(None)?;
    let names: Vec<String> = mutant.faults.iter().map(|name| (*name).to_owned()).collect();
    let options = Options {
        seed,
        faults: faults::named(&names).map_err(|name| Error::says(format!("there is no fault {name}")))?,
        in_order: true,
        durable: false,
        without: broken.then(|| mutant.guard.to_owned()),
        calm: Duration::from_secs(8),
        lease: Duration::from_millis(mutant.lease_ms),
        ..Options::usual(folder.path())?
    };
    say(format!("{} {}", if broken { "without" } else { "with" }, mutant.guard));
    let outcome = play(&options).await?;
    Ok((outcome, folder))
}
