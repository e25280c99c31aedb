//! PgBouncer in transaction mode between the servers and the database.

use futures::FutureExt as _;

use super::{Fault, Scene, Told};
use crate::stage::{Launch, Result, Stage};

pub(super) const FAULT: Fault = Fault {
    name: "pooler",
    about: "all servers through PgBouncer in transaction mode, with kills, cuts and dropped answers",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let stage = scene.stage;
    let Some(pooler) = &stage.pooler else {
        return Ok(Told::Skipped("PgBouncer is not installed (Debian: pgbouncer)".to_owned()));
    };
    restart_all(scene, stage, Some(pooler.socket())).await;
    scene.wait(4000, 6000).await;
    scene.server().kill();
    scene.wait(2000, 3000).await;
    scene.server().proxy.drop_answers(2);
    scene.wait(1500, 2500).await;
    scene.server().proxy.cut_all();
    scene.wait(1000, 2000).await;
    stage.postgres.crash().await;
    stage.postgres.start().await?;
    scene.wait(4000, 6000).await;
    restart_all(scene, stage, None).await;
    Ok(Told::Done("with a kill, 2 answers dropped, a cut, an immediate restart of PostgreSQL".to_owned()))
}

async fn restart_all(scene: &mut Scene<'_>, stage: &Stage, through: Option<std::path::PathBuf>) {
    for server in &stage.servers {
        server.through_pooler(through.clone());
        server.restart(Launch::default());
        scene.wait(300, 1500).await;
    }
}
