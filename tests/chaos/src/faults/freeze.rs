//! A server that stands still past its lease, and then goes on as if nothing had been.

use std::time::Duration;

use futures::FutureExt as _;
use nix::sys::signal::Signal;
use serde_json::json;

use super::{Fault, Scene, Told};
use crate::stage::{Result, millis};

pub(super) const FAULT: Fault = Fault {
    name: "freeze",
    about: "SIGSTOP of an owner past its lease while others take over, then SIGCONT",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let mut words = Vec::new();
    for _ in scene.times(2) {
        let frozen = scene.server();
        scene.stage.journal.note("stop", json!({"server": frozen.index}));
        frozen.signal(Signal::SIGSTOP);
        let lease = millis(scene.stage.lease);
        let beyond = scene.number(lease + 600, lease + 3500);
        tokio::time::sleep(Duration::from_millis(beyond)).await;
        frozen.signal(Signal::SIGCONT);
        scene.stage.journal.note("cont", json!({"server": frozen.index}));
        words.push(format!("server {} for {beyond} ms", frozen.index));
        scene.wait(800, 2000).await;
    }
    Ok(Told::Done(words.join(", then ")))
}
