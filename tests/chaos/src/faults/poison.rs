//! A run that kills every server that takes it. It must be given up, and the others must live.

use std::time::Duration;

use futures::FutureExt as _;

use super::{Fault, Scene, Told};
use crate::stage::{Launch, Result};

/// Six deaths, each a lease and a start apart.
const PATIENCE: Duration = Duration::from_secs(90);

pub(super) const FAULT: Fault = Fault {
    name: "poison",
    about: "a run whose call kills each server that sends it, until it is given up",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let deadly = Launch { crash: Some("effect.before@poison".to_owned()), clock: None };
    for server in &scene.stage.servers {
        server.lasting(deadly.clone());
        server.restart(Launch::default());
    }
    let given_up = scene.clients.poison(PATIENCE).await;
    scene.stage.servers.iter().for_each(|server| server.lasting(Launch::default()));
    Ok(match given_up {
        Some(reason) if reason == "crash_loop" => {
            Told::Done("the run was given up as a crash loop".to_owned())
        }
        Some(reason) => Told::Failed(format!("the poisonous run ended as {reason}, not as crash_loop")),
        None => Told::Failed(format!("the poisonous run was not given up within {PATIENCE:?}")),
    })
}
