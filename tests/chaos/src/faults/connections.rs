//! Others take what connections PostgreSQL has.

use std::time::Duration;

use futures::FutureExt as _;
use sqlx::PgConnection;

use super::{Fault, Scene, Told};
use crate::stage::{DATABASE, Result};

/// More than PostgreSQL has.
const MOST: usize = 200;

pub(super) const FAULT: Fault = Fault {
    name: "connections",
    about: "every connection that PostgreSQL has left taken by others, while a server restarts",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let mut taken: Vec<PgConnection> = Vec::new();
    let mut most = 0;
    // Twice: servers that are killed give up theirs, which are taken as well.
    for _ in 0..2 {
        while taken.len() < MOST
            && let Ok(connection) = scene.stage.postgres.connect(DATABASE).await
        {
            taken.push(connection);
        }
        most = most.max(taken.len());
        scene.server().kill();
        scene.wait(2000, 3000).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(taken);
    Ok(Told::Done(format!("{most} taken, 2 servers killed meanwhile")))
}
