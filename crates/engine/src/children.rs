//! Runs that others called: what a server that died left untold is told by another one.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::env::Env;
use crate::session::answered;

/// Between two looks, more or less: servers don't all look at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells until `stop`.
pub(crate) async fn tell(env: Arc<Env>, stop: CancellationToken) {
    loop {
        let pause = LOOK_EVERY.mul_f64(rand::random_range(0.75..1.25));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        // A round that is cut off by the end of this server is another one's.
        let told = tokio::select! {
            () = stop.cancelled() => return,
            told = answered(env.store.tell_children()) => told,
        };
        match told {
            Ok(0) => {}
            Ok(runs) => tracing::info!(runs, "runs were told what a server left untold"),
            Err(error) => tracing::debug!(%error, "what is left untold can't be looked up"),
        }
    }
}
