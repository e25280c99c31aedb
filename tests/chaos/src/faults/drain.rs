//! Servers told to stop under load.

use std::time::Duration;

use futures::FutureExt as _;
use nix::sys::signal::Signal;

use super::{Fault, Scene, Told};
use crate::stage::Result;

/// The drain of the servers, what comes after it, and the slowness of this machine.
const PATIENCE: Duration = Duration::from_secs(25);

pub(super) const TERM_THEN_KILL: Fault = Fault {
    name: "term-kill",
    about: "SIGTERM under load, then SIGKILL in the drain",
    run: |scene| term_then_kill(scene).boxed(),
};
pub(super) const ROLLING: Fault = Fault {
    name: "rolling",
    about: "all servers restarted one after the other, as an upgrade does",
    run: |scene| rolling(scene).boxed(),
};

async fn term_then_kill(scene: &mut Scene<'_>) -> Result<Told> {
    for _ in 0..3 {
        let server = scene.server();
        server.signal(Signal::SIGTERM);
        scene.wait(20, 1500).await;
        server.kill();
        scene.wait(1500, 2500).await;
    }
    Ok(Told::Done("3 times".to_owned()))
}

async fn rolling(scene: &mut Scene<'_>) -> Result<Told> {
    for server in &scene.stage.servers {
        match server.terminate(PATIENCE).await.as_deref() {
            Some("exit 0") => {}
            Some(how) => {
                return Ok(Told::Failed(format!("server {} ended with {how} after SIGTERM", server.index)));
            }
            None => {
                return Ok(Told::Failed(format!(
                    "server {} still runs {PATIENCE:?} after SIGTERM",
                    server.index
                )));
            }
        }
        if !server.ready(PATIENCE).await {
            return Ok(Told::Failed(format!(
                "server {} was not ready {PATIENCE:?} after its start",
                server.index
            )));
        }
    }
    Ok(Told::Done("each left content and came back".to_owned()))
}
