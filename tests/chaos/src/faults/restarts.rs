//! PostgreSQL shut down at once, again and again.

use futures::FutureExt as _;
use serde_json::json;

use super::{Fault, Scene, Told};
use crate::stage::Result;

pub(super) const FAULT: Fault = Fault {
    name: "postgres",
    about: "immediate restarts of PostgreSQL every few seconds, also while servers recover",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let stage = scene.stage;
    for n in scene.times(4) {
        stage.journal.note("postgres.down", json!({}));
        stage.postgres.crash().await;
        scene.wait(0, 1200).await;
        stage.postgres.start().await?;
        stage.journal.note("postgres.up", json!({}));
        // From the second on, a server that has just come back meets it too.
        if n > 0 {
            scene.server().kill();
        }
        scene.wait(700, 3500).await;
    }
    let times = scene.times(4).end;
    Ok(Told::Done(format!("{times} immediate restarts, with {} servers killed in between", times - 1)))
}
