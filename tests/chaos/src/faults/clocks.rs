//! Clocks that are wrong.

use futures::FutureExt as _;
use serde_json::json;

use super::{Fault, Scene, Told};
use crate::stage::{Launch, Result};

/// An hour, in seconds.
const HOUR: i64 = 3600;

pub(super) const SERVERS: Fault = Fault {
    name: "clock-servers",
    about: "one server an hour ahead, another an hour behind",
    run: |scene| servers(scene).boxed(),
};
pub(super) const DATABASE: Fault = Fault {
    name: "clock-database",
    about: "the database's clock jumps an hour ahead, then 20 s back, and stays there",
    run: |scene| database(scene).boxed(),
};

async fn servers(scene: &mut Scene<'_>) -> Result<Told> {
    if !scene.stage.has_faketime() {
        return Ok(Told::Skipped("libfaketime is not installed (Debian: faketime)".to_owned()));
    }
    let wrong = scene.servers(2);
    for (server, clock) in wrong.iter().zip(["+1h", "-1h"]) {
        scene.stage.journal.note("clock", json!({"server": server.index, "clock": clock}));
        server.restart(Launch { crash: None, clock: Some(clock.to_owned()) });
    }
    scene.wait(8000, 12_000).await;
    wrong.iter().for_each(|server| server.restart(Launch::default()));
    Ok(Told::Done(format!("server {} ahead, server {} behind", wrong[0].index, wrong[1].index)))
}

async fn database(scene: &mut Scene<'_>) -> Result<Told> {
    let stage = scene.stage;
    if !stage.postgres.has_clock() {
        return Ok(Told::Skipped(
            "libfaketime is not installed (Debian: faketime), or this is the short test".to_owned(),
        ));
    }
    for seconds in [HOUR, HOUR - 20] {
        stage.journal.note("clock", json!({"database": seconds}));
        stage.postgres.set_clock(seconds)?;
        scene.wait(5000, 8000).await;
    }
    Ok(Told::Done("3600 s ahead, then 3580 s".to_owned()))
}
