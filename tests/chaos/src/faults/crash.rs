//! Death at named points of the program: before and after everything that counts.

use std::time::Duration;

use futures::FutureExt as _;

use super::{Fault, Scene, Told};
use crate::stage::{Launch, Result, Server};

/// How long a server may take to come to its point.
const PATIENCE: Duration = Duration::from_secs(12);

macro_rules! crash {
    ($constant:ident, $name:literal, $about:literal, $point:literal, $most:literal) => {
        #[doc = $about]
        pub(super) const $constant: Fault =
            Fault { name: $name, about: $about, run: |scene| at(scene, $point, $most).boxed() };
    };
}

crash!(CLAIM, "crash-claim", "death before and after due runs are claimed", "claim", 6);
crash!(RECLAIM, "crash-reclaim", "death before and after runs of the dead are claimed", "reclaim", 1);
crash!(COMMIT, "crash-commit", "death before and after the engine's one write", "commit", 25);
crash!(WRITE, "crash-write", "death before and after any other commit", "write", 25);
crash!(EFFECT, "crash-effect", "death before and after a tool call is sent", "effect", 8);
crash!(MODEL, "crash-model", "death before and after the model is asked", "model", 8);

/// Both sides of the point, on two servers, one after the other; the third lives on. Which passing it is, chance says.
/// Where it shall be brief, one of the sides.
async fn at(scene: &mut Scene<'_>, point: &'static str, most: u64) -> Result<Told> {
    let mut words = Vec::new();
    let first = usize::from(scene.brief && scene.coin());
    let sides = if scene.brief { &["before", "after"][first..=first] } else { &["before", "after"][..] };
    for (side, server) in sides.iter().zip(scene.servers(2)) {
        let crash = format!("{point}.{side}:{}", scene.number(1, most));
        server.restart(Launch { crash: Some(crash.clone()), clock: None });
        let died = dies(scene, server, point == "reclaim").await;
        words.push(format!("{crash} on server {}{}", server.index, if died { "" } else { " (not reached)" }));
        if !died {
            server.restart(Launch::default());
        }
        scene.wait(200, 1200).await;
    }
    Ok(Told::Done(words.join(", ")))
}

/// Waits until it has started and died. With `orphans`, another server dies meanwhile, so that there is something to
/// take over.
async fn dies(scene: &mut Scene<'_>, server: &Server, orphans: bool) -> bool {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut first = None;
    while tokio::time::Instant::now() < deadline {
        let pid = server.pid();
        match (first, pid) {
            (None, Some(_)) => {
                first = pid;
                if orphans && server.ready(PATIENCE).await {
                    let other = scene.stage.servers.iter().find(|other| other.index != server.index);
                    other.inspect(|other| other.kill());
                }
            }
            (Some(first), now) if now != Some(first) => return true,
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}
