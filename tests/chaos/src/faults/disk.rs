//! The disk under PostgreSQL is full, and free again.

use futures::FutureExt as _;
use serde_json::json;

use super::{Fault, Scene, Told};
use crate::stage::Result;

pub(super) const FAULT: Fault = Fault {
    name: "disk-full",
    about: "the disk under PostgreSQL full, then free again",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let stage = scene.stage;
    stage.journal.note("postgres.down", json!({"disk": "full"}));
    if let Err(why) = stage.postgres.fill_disk()? {
        stage.journal.note("postgres.up", json!({}));
        return Ok(Told::Skipped(format!("no tmpfs could be mounted for PostgreSQL: {why}")));
    }
    scene.wait(5000, 8000).await;
    let survived = stage.postgres.is_running();
    stage.postgres.free_disk();
    // Without space for its log it panics and can't recover: an administrator starts it again.
    stage.postgres.start().await?;
    stage.journal.note("postgres.up", json!({}));
    Ok(Told::Done(
        if survived { "PostgreSQL went on" } else { "PostgreSQL died of it and was started again" }
            .to_owned(),
    ))
}
