//! A run's journal as a download: a line an event, after one that says what they are folded over.
//!
//! A task reads it in pages and holds no connection while its reader is slow; a reader that doesn't go on in time is cut off.

use std::io;
use std::time::Duration;

use answerable_core::id::{AgentId, RunId, TenantId};
use answerable_store::{JournalRow, RunBegin};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::problem::{self, Problem};
use crate::shapes::Time;
use crate::shapes::agents;
use crate::state::AppState;

/// Lines read at once: an event may be as large as what a tool said.
const ROWS: i64 = 16;
/// Pages that a reader may be behind.
const BUFFER: usize = 2;
/// How long a reader may keep its buffer full.
const PATIENCE: Duration = Duration::from_secs(20);

type Chunk = Result<Bytes, io::Error>;

/// The journal of a run that began so.
pub(crate) fn stream(
    state: &AppState,
    tenant: TenantId,
    run_id: RunId,
    begin: RunBegin,
) -> Result<Response, Problem> {
    let first = line(&json!({
        "run_id": run_id,
        "agent_id": begin.agent.map(|(id, _)| AgentId(id)),
        "agent_version": begin.agent.map(|(_, version)| version),
        "agent": Value::Object(agents::shown(begin.spec)),
        "first_state": begin.first,
    }));
    let (chunks, received) = mpsc::channel(BUFFER);
    tokio::spawn(Reading { state: state.clone(), tenant, run_id, chunks }.all(first.into()));
    let body = Body::from_stream(ReceiverStream::new(received));
    let mut response = problem::page("application/x-ndjson", body);
    let name = format!("attachment; filename=\"{run_id}.journal.ndjson\"");
    let name = HeaderValue::from_str(&name).map_err(|error| Problem::internal(error.to_string()))?;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_DISPOSITION, name);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

struct Reading {
    state: AppState,
    tenant: TenantId,
    run_id: RunId,
    chunks: mpsc::Sender<Chunk>,
}

impl Reading {
    /// Whoever gets less than all of it sees the line cut, not an end.
    async fn all(self, first: Bytes) {
        if let Err(cut) = self.lines(first).await {
            let _ = self.chunks.send_timeout(Err(cut), PATIENCE).await;
        }
    }

    async fn lines(&self, first: Bytes) -> Result<(), io::Error> {
        self.say(first).await?;
        let mut after = (0, 0);
        loop {
            let rows = self.read(after).await.map_err(|error| io::Error::other(error.to_string()))?;
            let Some(last) = rows.last() else { return self.is_whole().await };
            after = (last.seq, last.index);
            let text: String = rows.iter().map(told).collect();
            self.say(text.into()).await?;
        }
    }

    async fn read(&self, after: (i64, i32)) -> answerable_store::Result<Vec<JournalRow>> {
        self.state.store.tenant(self.tenant).await?.journal_list(self.run_id, after, ROWS).await
    }

    /// A run that was deleted meanwhile ends in the middle.
    async fn is_whole(&self) -> Result<(), io::Error> {
        let away = |error: answerable_store::StoreError| io::Error::other(error.to_string());
        let mut tx = self.state.store.tenant(self.tenant).await.map_err(away)?;
        match tx.run_begin(self.run_id).await.map_err(away)? {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the journal was deleted")),
        }
    }

    async fn say(&self, chunk: Bytes) -> Result<(), io::Error> {
        let sent = self.chunks.send_timeout(Ok(chunk), PATIENCE).await;
        sent.map_err(|_| io::Error::other("nobody reads on"))
    }
}

fn told(row: &JournalRow) -> String {
    line(&json!({"seq": row.seq, "index": row.index, "at": Time(row.at), "event": row.event}))
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}
