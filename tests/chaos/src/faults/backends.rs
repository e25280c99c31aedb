//! Sessions ended by an administrator.

use futures::FutureExt as _;

use super::{Fault, Scene, Told};
use crate::stage::{DATABASE, Result};

pub(super) const FAULT: Fault = Fault {
    name: "terminate",
    about: "pg_terminate_backend of sessions at random",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    for _ in 0..20 {
        // Most often one that does something.
        let statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()
             ORDER BY (state = 'idle')::int + random() LIMIT 2";
        scene.stage.postgres.execute(DATABASE, statement).await?;
        scene.wait(100, 600).await;
    }
    Ok(Told::Done("40 sessions".to_owned()))
}
