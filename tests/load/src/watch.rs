//! Seeing a run begin.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Method;

use crate::{Client, Result};

/// A run that has not begun by then never will.
const PATIENCE: Duration = Duration::from_secs(120);

/// Watches a run's events, and returns when it is told that the run has started.
///
/// # Errors
/// The stream ends before, or nothing comes for two minutes.
pub async fn started(client: &Client, run: &str) -> Result<()> {
    let request = client.request(Method::GET, &format!("/v1/runs/{run}/events"));
    let hear = async {
        let answer = request.header("accept", "text/event-stream").send().await?.error_for_status()?;
        let (mut pieces, mut heard) = (answer.bytes_stream(), Vec::new());
        while let Some(piece) = pieces.next().await {
            heard.extend_from_slice(&piece?);
            if String::from_utf8_lossy(&heard).contains("event: run.started\n") {
                return Ok(());
            }
        }
        Err(format!("the events of {run} end before its start").into())
    };
    tokio::time::timeout(PATIENCE, hear).await.map_err(|_| format!("{run} does not start"))?
}
