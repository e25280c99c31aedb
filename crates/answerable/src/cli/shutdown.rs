//! When to stop.

use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

/// Returns at the first SIGTERM or SIGINT. A second SIGINT or SIGTERM while the server drains ends the process.
///
/// # Errors
/// The system refuses to deliver signals.
pub(crate) async fn requested() -> Result<(), Failure> {
    let cannot = |e: std::io::Error| Failure::new(format!("signals can't be received: {e}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(())
}
