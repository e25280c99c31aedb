//! All that a tenant has as a download: a line a thing, and at the end how many there were of each kind.
//!
//! A task reads it in pages and holds no connection while its reader is slow; a reader that doesn't go on in time is cut off.

mod contents;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use answerable_core::agent::redacted;
use answerable_core::id::TenantId;
use answerable_ports::Share;
use answerable_store::{ExportKind, ExportPlace, ExportRow};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::auth::Stay;
use crate::problem::{self, Problem};
use crate::state::AppState;

/// Pieces that a reader may be behind.
const BUFFER: usize = 2;
/// How long a reader may keep its buffer full.
const PATIENCE: Duration = Duration::from_secs(60);

type Chunk = Result<Bytes, io::Error>;

/// The whole of a tenant, for as long as `stay` lets its reader stay.
pub(crate) fn stream(
    state: &AppState,
    tenant: TenantId,
    place: Share<TenantId>,
    stay: Option<Stay>,
) -> Result<Response, Problem> {
    let (chunks, received) = mpsc::channel(BUFFER);
    let export = Export { state: state.clone(), tenant, chunks, counts: BTreeMap::new(), _place: place };
    tokio::spawn(export.all(stay));
    head(tenant, Body::from_stream(ReceiverStream::new(received)))
}

/// The head of the answer: how long that would be, nobody knows.
pub(crate) fn head_alone(tenant: TenantId) -> Result<Response, Problem> {
    head(tenant, Body::from_stream(futures::stream::empty::<Chunk>()))
}

fn head(tenant: TenantId, body: Body) -> Result<Response, Problem> {
    let mut response = problem::page("application/x-ndjson", body);
    let name = HeaderValue::from_str(&format!("attachment; filename=\"{tenant}.ndjson\""));
    let name = name.map_err(|error| Problem::internal(error.to_string()))?;
    response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

struct Export {
    state: AppState,
    tenant: TenantId,
    chunks: mpsc::Sender<Chunk>,
    counts: BTreeMap<&'static str, u64>,
    /// Its place among the exports.
    _place: Share<TenantId>,
}

impl Export {
    /// Whoever gets less than all of it sees the line cut, not an end.
    async fn all(mut self, stay: Option<Stay>) {
        let chunks = self.chunks.clone();
        let over = async {
            match stay {
                Some(mut stay) => drop(stay.over().await),
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = self.kinds() => ended,
            () = over => Err(io::Error::other("the reader may read no more")),
        };
        if let Err(cut) = ended {
            let _ = chunks.send_timeout(Err(cut), PATIENCE).await;
        }
    }

    async fn kinds(&mut self) -> Result<(), io::Error> {
        for kind in ExportKind::ALL.iter().copied() {
            let mut after = ExportPlace::default();
            loop {
                let rows = self.page(kind, &after).await?;
                let Some(last) = rows.last() else { break };
                after = last.place();
                self.rows(kind, rows).await?;
            }
        }
        self.say(format!("{{\"kind\":\"end\",\"counts\":{}}}\n", json!(self.counts))).await
    }

    async fn page(&self, kind: ExportKind, after: &ExportPlace) -> Result<Vec<ExportRow>, io::Error> {
        let mut tx = self.state.store.tenant(self.tenant).await.map_err(io::Error::other)?;
        let rows = tx.export_page(kind, after).await.map_err(io::Error::other)?;
        rows.ok_or_else(|| io::Error::other("the tenant was deleted"))
    }

    async fn rows(&mut self, kind: ExportKind, rows: Vec<ExportRow>) -> Result<(), io::Error> {
        let mut text = String::new();
        for row in rows {
            let shown = shown(kind, &row)?;
            text.push_str(&self.line(kind.as_str(), shown.as_deref().unwrap_or(&row.data)));
            if matches!(kind, ExportKind::Artifact | ExportKind::File) {
                self.say(std::mem::take(&mut text)).await?;
                self.contents(kind, &row).await?;
            }
        }
        self.say(text).await
    }

    fn line(&mut self, kind: &'static str, data: &str) -> String {
        *self.counts.entry(kind).or_default() += 1;
        format!("{{\"kind\":\"{kind}\",\"data\":{data}}}\n")
    }

    async fn say(&self, text: String) -> Result<(), io::Error> {
        if text.is_empty() {
            return Ok(());
        }
        let sent = self.chunks.send_timeout(Ok(text.into()), PATIENCE).await;
        sent.map_err(|_| io::Error::other("nobody reads on"))
    }
}

/// A row in which an author may have written a secret, without it; `None`: it is none of those.
fn shown(kind: ExportKind, row: &ExportRow) -> Result<Option<String>, io::Error> {
    let agent = match kind {
        ExportKind::AgentSpec => "/spec",
        ExportKind::Schedule => "/run/agent",
        _ => return Ok(None),
    };
    let mut data: Value = serde_json::from_str(&row.data)?;
    if let Some(agent) = data.pointer_mut(agent) {
        *agent = redacted(agent);
    }
    Ok(Some(data.to_string()))
}
