//! Nobody hears anybody: notifications lost, listeners dead without knowing.

use futures::FutureExt as _;

use super::{Fault, Scene, Told};
use crate::stage::{DATABASE, Result};

pub(super) const FAULT: Fault = Fault {
    name: "notify",
    about: "notifications lost, listening connections black-holed, then terminated",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let stage = scene.stage;
    let all = |change: fn(&mut crate::stage::Mode)| {
        stage.servers.iter().for_each(|server| server.proxy.set(change))
    };
    all(|mode| mode.lose_notifications = true);
    scene.wait(3000, 5000).await;
    all(|mode| mode.hole_for_listeners = true);
    scene.wait(3000, 5000).await;
    let listeners = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query ILIKE 'LISTEN%'";
    stage.postgres.execute(DATABASE, listeners).await?;
    scene.wait(500, 2000).await;
    Ok(Told::Done("lost on all servers, then held back, then terminated".to_owned()))
}
