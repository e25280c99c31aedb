//! One play of one case.

use std::time::{Duration, Instant};

use answerable_evals::case::Case;
use answerable_evals::report::{Play, RunSummary};
use answerable_evals::{Finding, Observed, check};
use reqwest::Method;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::args::Options;
use super::follow::{Follow, Trouble, is_terminal};
use super::look;
use super::place::{Guest, Place, text};
use super::setup::Setup;
use super::world::World;
use crate::Failure;

/// How long a run may take to end that is cancelled because its play is over.
const FAREWELL: Duration = Duration::from_secs(5);

/// Plays a case once, and takes away what the play made, also where it is interrupted.
pub(super) async fn play(
    case: &Case,
    place: &Place,
    options: &Options,
    interrupted: &CancellationToken,
) -> Play {
    let begun = Instant::now();
    let played = async {
        let world = World::open(case).await?;
        let guest = place.welcome(&case.name).await?;
        let setup = Setup { case, guest: &guest, world: &world, options, reach: place.reach };
        let played = on_stage(setup, interrupted).await;
        setup.tidy().await;
        place.goodbye(guest).await;
        played
    };
    let mut play = played.await.unwrap_or_else(|failure| {
        let trouble = Finding::trouble(failure.message().unwrap_or_default());
        Play { findings: vec![trouble], ..Play::default() }
    });
    play.took = begun.elapsed();
    play
}

/// From the start of the run to the last look at it.
async fn on_stage(setup: Setup<'_>, interrupted: &CancellationToken) -> Result<Play, Failure> {
    let body = setup.prepare().await?;
    let begun = Instant::now();
    let run = setup.guest.api.post(&["v1", "runs"], &body).await?;
    let mut follow = Follow::new(setup, text(&run, "id")?);
    let limit = setup.options.time_limit;
    let outcome = tokio::select! {
        outcome = follow.through() => outcome,
        () = tokio::time::sleep(limit) => Err(Trouble(format!("it took longer than {} s", limit.as_secs_f32()))),
        () = interrupted.cancelled() => Err(Trouble("it was interrupted".to_owned())),
    };
    let seen = look::look(&follow, begun.elapsed()).await;
    let play = match seen {
        Ok(mut observed) => {
            observed.troubles.extend(outcome.err().map(|trouble| trouble.0));
            judged(&follow, &observed).await
        }
        Err(trouble) => Err(Failure::new(trouble.0)),
    };
    farewell(setup.guest, &follow).await;
    play
}

async fn judged(follow: &Follow<'_>, observed: &Observed) -> Result<Play, Failure> {
    let expect = follow.setup.case.expect.as_ref();
    let findings = expect.map(|expect| check(expect, observed)).unwrap_or_default();
    let story = if findings.is_empty() {
        Vec::new()
    } else {
        // A story that can't be told leaves the findings as they are.
        look::story(follow).await.unwrap_or_default()
    };
    Ok(Play { findings, run: Some(RunSummary::of(observed)), story, ..Play::default() })
}

/// Ends a run that the play leaves behind; in a tenant that others use too, takes the runs away.
async fn farewell(guest: &Guest, follow: &Follow<'_>) {
    let ended = async {
        let run = follow.look().await?;
        if !is_terminal(&run) {
            guest.api.post(&["v1", "runs", follow.run(), "cancel"], &serde_json::json!({})).await?;
        }
        if !guest.is_alone() && !follow.setup.options.keep {
            while !is_terminal(&follow.look().await?) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // The last stands on the others.
            for id in follow.runs.iter().rev() {
                guest.api.call(Method::DELETE, &["v1", "runs", id], None).await?;
            }
        }
        Ok::<(), Trouble>(())
    };
    // What stays harms nobody; an interrupted play has its tenant taken away.
    let _ = timeout(FAREWELL, ended).await;
}
