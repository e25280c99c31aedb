//! Real servers on a PostgreSQL of their own, a model that takes its time, and what is measured of them.
//!
//! Each program in `bin/` is one load. It reaches the servers over HTTP alone, and fails when what it measures is not as
//! it must be.

mod client;
mod model;
mod numbers;
mod server;
mod stage;
mod watch;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

pub use client::{Client, Tenant};
pub use model::Model;
pub use numbers::Times;
pub use server::Server;
pub use stage::{Place, Stage};
pub use watch::started;

/// What a load comes to, or in words why it can't be made.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Says a line to whoever runs the load.
pub fn say(line: impl AsRef<str>) {
    // Nobody may be listening any more, which is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{}", line.as_ref());
}

/// Plays a load: success where it comes to `true`. Ctrl-C ends it, and all that was started with it.
pub fn play(load: impl Future<Output = Result<bool>>) -> ExitCode {
    // Fails where there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let played =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Into::into).and_then(
            |runtime| {
                runtime.block_on(async {
                    tokio::select! {
                        came_to = load => came_to,
                        _ = tokio::signal::ctrl_c() => Err("stopped".into()),
                    }
                })
            },
        );
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}
