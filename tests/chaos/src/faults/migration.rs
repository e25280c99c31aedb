//! The first start of all: a server on an empty database, killed and cut off while it migrates.

use std::time::Duration;

use futures::FutureExt as _;

use super::{Fault, Scene, Told};
use crate::stage::{Launch, Result};

/// How long the last start may take.
const PATIENCE: Duration = Duration::from_secs(40);

pub(super) const FAULT: Fault = Fault {
    name: "migration",
    about: "servers on an empty database: death before and after migrating, PostgreSQL restarted in it",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let stage = scene.stage;
    let mut words = Vec::new();
    for crash in ["migrate.before", "migrate.after"] {
        let database = format!("fresh_{}", scene.number(0, u64::MAX));
        stage.postgres.execute("postgres", format!("CREATE DATABASE {database} TEMPLATE template0")).await?;
        let first = Launch { crash: Some(format!("{crash}:1")), clock: None };
        let (server, supervisor) = stage.extra_server(&database, first).await?;
        let (other, its_supervisor) = stage.extra_server(&database, Launch::default()).await?;
        for _ in 0..2 {
            scene.wait(50, 900).await;
            stage.postgres.crash().await;
            stage.postgres.start().await?;
        }
        let ready = server.ready(PATIENCE).await && other.ready(PATIENCE).await;
        drop((supervisor, its_supervisor));
        drop((server, other));
        if !ready {
            return Ok(Told::Failed(format!(
                "after {crash} and restarts of PostgreSQL the database is not migrated"
            )));
        }
        stage.postgres.execute("postgres", format!("DROP DATABASE {database} WITH (FORCE)")).await?;
        words.push(crash);
    }
    Ok(Told::Done(format!("{}, each with 2 immediate restarts of PostgreSQL", words.join(" and "))))
}
