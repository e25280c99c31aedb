//! The world outside: tools with effects and a model, in a process of their own, which no fault touches.
//!
//! It is the witness of what was done. Each effect is on the disk before anybody is told of it.

mod http;
mod keys;
pub mod kinds;
pub mod lines;
mod mishaps;
pub mod model;
mod requests;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Where the world can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Base URL of the tools (`/tool/NAME` below it), and of what only people ask (`/truth`).
    pub tools: String,
    /// A provider's `base_url`.
    pub model: String,
}

/// A world that serves until it is dropped.
#[derive(Debug)]
pub struct World {
    /// Where.
    pub addresses: Addresses,
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

/// What the handlers share.
#[derive(Debug)]
struct Shared {
    seed: u64,
    keys: Arc<keys::Keys>,
    requests: Arc<requests::Requests>,
    /// Requests so far, by key or by turn of a conversation.
    counts: Mutex<HashMap<String, u32>>,
}

impl World {
    /// Serves on two free ports of loopback, and logs into `dir`.
    ///
    /// # Errors
    /// No port, or the logs can't be written.
    pub async fn start(dir: &Path, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            seed,
            keys: Arc::new(keys::Keys::open(dir)?),
            requests: Arc::new(requests::Requests::open(dir)?),
            counts: Mutex::default(),
        });
        let tools = Router::new()
            .route("/tool/{name}", post(tools::call))
            .route("/truth", get(tools::truth))
            .route("/settled", post(tools::settled))
            .with_state(Arc::clone(&shared));
        let model = Router::new()
            .route("/v1/chat/completions", post(model::complete))
            .with_state(Arc::clone(&shared));
        let (tools_at, model_at) =
            (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let addresses = Addresses {
            tools: format!("http://{}", tools_at.local_addr()?),
            model: format!("http://{}/v1", model_at.local_addr()?),
        };
        let tasks = [tokio::spawn(http::serve(tools_at, tools)), tokio::spawn(http::serve(model_at, model))];
        Ok(Self { addresses, shared, tasks })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    /// Counts a request: which one of its kind it is, from 1.
    fn nth(&self, what: &str) -> u32 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }
}

/// The process `answerable-chaos world`: prints its [`Addresses`] as one line and serves until its standard input ends.
///
/// # Errors
/// It can't start, or its logs can't be written to the end.
pub async fn run_process(dir: &Path, seed: u64) -> io::Result<()> {
    let world = World::start(dir, seed).await?;
    {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&world.addresses)?)?;
        out.flush()?;
    }
    // Whatever stands there means nothing; its end does.
    let _ = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await;
    world.shared.requests.settled().await?;
    world.shared.keys.settled().await
}
