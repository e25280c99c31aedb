//! SIGKILL.

use futures::FutureExt as _;

use super::{Fault, Scene, Told, numbers};
use crate::stage::{RECOVERY, Result, busiest, kill_and_measure};

/// One server, with its runs' time until another server has them.
pub(super) const ONE: Fault = Fault {
    name: "kill-one",
    about: "SIGKILL of one server; measures how long its runs wait for another",
    run: |scene| one(scene).boxed(),
};

/// Several at the same moment.
pub(super) const SOME: Fault = Fault {
    name: "kill-some",
    about: "SIGKILL of several servers at once",
    run: |scene| some(scene).boxed(),
};

/// Nobody is left.
pub(super) const ALL: Fault =
    Fault { name: "kill-all", about: "SIGKILL of all servers at once", run: |scene| all(scene).boxed() };

async fn one(scene: &mut Scene<'_>) -> Result<Told> {
    let mut words = Vec::new();
    for _ in scene.times(3) {
        let victim = busiest(scene.stage).await?;
        let taken = kill_and_measure(scene.stage, victim.index).await?;
        words.push(format!("server {} killed, {taken} of its runs taken over", victim.index));
        // The next one must find the others whole.
        scene.stage.not_ready(RECOVERY).await;
        scene.wait(500, 1500).await;
    }
    Ok(Told::Done(words.join("; ")))
}

async fn some(scene: &mut Scene<'_>) -> Result<Told> {
    let mut waves = Vec::new();
    for _ in scene.times(3) {
        let count = scene.stage.servers.len() - 1;
        let victims = scene.servers(count);
        victims.iter().for_each(|server| server.kill());
        waves.push(numbers(&victims));
        scene.wait(1500, 4000).await;
    }
    Ok(Told::Done(format!("servers killed: {}", waves.join("; "))))
}

async fn all(scene: &mut Scene<'_>) -> Result<Told> {
    scene.stage.servers.iter().for_each(|server| server.kill());
    scene.wait(2000, 4000).await;
    // A second time, when they have just begun to take up what is left.
    scene.stage.servers.iter().for_each(|server| server.kill());
    Ok(Told::Done("all servers killed, twice".to_owned()))
}
