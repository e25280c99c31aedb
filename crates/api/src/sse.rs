//! Event streams: stored events in order, without gap or repeat, and what is live between them.
//!
//! Every stream is fed by a task of its own, which holds no connection to the database while nothing happens. Between the task
//! and the reader is a small `pipe`; a reader that doesn't empty it in time is cut off and may resume. `live` has the words of
//! the model.

mod live;
mod pipe;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::time::Duration;

use answerable_core::id::{RunId, TenantId};
use answerable_store::{EventRecord, StoreError};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use tokio::time::Instant;

use crate::auth::{RunsRead, Stay, Tenant};
use crate::problem::{self, Problem};
use crate::shapes::evidence::Event;
use crate::state::{AppState, STREAM_PATIENCE};
use crate::watch::{Seen, Watch};
use live::Live;
use pipe::{Left, PIECE, Pipe, pipe};

/// Pieces that a reader may be behind and is still told words; who is further behind gets more at once, later.
const BEHIND: usize = 2;
/// How long rows wait for words from another server that belong before them.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Rows read at once, and for a reader that takes them slowly.
const ROWS: i64 = 200;
const FEW_ROWS: i64 = 4;
/// Rows that a reader doesn't take within this are not kept for it, but read again when it goes on.
const MOMENT: Duration = Duration::from_millis(100);
/// How long a reader may keep its pipe full, or be so far behind.
const PATIENCE: Duration = Duration::from_secs(20);
/// A comment keeps the line open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Whether a stream is asked for.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = values.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The place after which a stream begins: what its reader has seen last.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| (1..=16).contains(&text.len()));
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let seq = digits.and_then(|text| text.parse().ok());
    seq.map(Some)
        .ok_or_else(|| Problem::invalid_at("/header/last-event-id", "must be the number of an event"))
}

/// The stream of a run's events after `after`.
pub(crate) async fn stream(
    state: &AppState,
    tenant: &Tenant<RunsRead>,
    run_id: RunId,
    after: i64,
) -> Result<Response, Problem> {
    let place = state.take_stream(tenant.id).map_err(|why| state.stream_refused(why))?;
    // Before anything is read: what is stored later is signalled.
    let watch = Watch::on(state, run_id);
    let mut tx = state.store.tenant(tenant.id).await?;
    let end = tx.events_end(run_id).await?.ok_or_else(Problem::not_found)?;
    if end.complete && after >= end.last_seq {
        return Ok(problem::nothing_left());
    }
    let seen = if after > 0 { tx.event_of_model(run_id, after).await? } else { None };
    drop(tx);
    // The run is this tenant's: its words are too.
    let live = Live::new(state.store.signals().hear(run_id), seen.as_ref());
    let (pipe, reader) = pipe(place);
    let feeder = Feeder {
        state: state.clone(),
        tenant: tenant.id,
        run_id,
        after,
        watch,
        stay: tenant.standing.watch(state),
        live,
        pipe,
        rows: ROWS,
        said_at: Instant::now(),
        behind_since: None,
    };
    tokio::spawn(feeder.feed());
    let mut response = Response::new(Body::from_stream(reader));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

struct Feeder {
    state: AppState,
    tenant: TenantId,
    run_id: RunId,
    /// The last that was sent.
    after: i64,
    watch: Watch,
    /// Whether the reader may still be here.
    stay: Stay,
    live: Live,
    pipe: Pipe,
    /// Rows that are read at once.
    rows: i64,
    said_at: Instant,
    /// Since when there are words that wait for the reader.
    behind_since: Option<Instant>,
}

/// Why a stream is over.
enum Over {
    /// All is said, the server goes down, or the database is away. The reader gets what was said so far.
    Ended,
    /// The reader left, is too slow, or may read no more.
    Cut,
}

impl From<Left> for Over {
    fn from(_: Left) -> Self {
        Self::Cut
    }
}

impl Feeder {
    /// Whatever ends it, the reader sees the end, and resumes if something is left.
    async fn feed(mut self) {
        match self.follow().await {
            Err(Over::Ended) => {}
            Err(Over::Cut) => self.pipe.cut(),
        }
    }

    async fn follow(&mut self) -> Result<Infallible, Over> {
        self.say("retry: 2000\n\n").await?;
        self.stored().await?;
        loop {
            let quiet = self.said_at + KEEP_ALIVE;
            tokio::select! {
                seen = self.watch.next() => match seen {
                    Seen::Rows => self.stored().await?,
                    Seen::Draining => return Err(Over::Ended),
                },
                () = self.live.due() => self.words().await?,
                () = tokio::time::sleep_until(quiet) => self.say(": still here\n\n").await?,
                _ = self.stay.over() => return Err(Over::Cut),
                () = self.pipe.left() => return Err(Over::Cut),
            }
        }
    }

    /// Says what the model has said meanwhile, after the rows that tell that it was asked.
    async fn words(&mut self) -> Result<(), Over> {
        if self.pipe.behind() > BEHIND {
            self.live.pause();
            let since = *self.behind_since.get_or_insert_with(Instant::now);
            return if since.elapsed() < PATIENCE { Ok(()) } else { Err(Over::Cut) };
        }
        if !self.live.is_begun() {
            self.stored().await?;
        }
        match self.live.take() {
            Some(frame) => self.say(frame).await,
            None => Ok(()),
        }
    }

    /// Says all that is stored and not said yet. Of a run that was deleted nothing is, and nothing will be.
    async fn stored(&mut self) -> Result<(), Over> {
        while self.next_rows().await? {}
        Ok(())
    }

    /// Says rows that are next. Whether there may be more.
    async fn next_rows(&mut self) -> Result<bool, Over> {
        let rows = self.read().await?;
        let mut more = usize::try_from(self.rows).is_ok_and(|most| rows.len() >= most);
        let (now, until) = (self.state.store.clock().utc(), Instant::now() + LAST_WORDS);
        let (mut rows, mut piece) = (rows.into_iter(), String::new());
        let (read, mut fitted) = (rows.len(), None);
        while let Some(row) = rows.next() {
            self.live.last_words(&row, now, until).await;
            piece.push_str(&self.live.before(&row));
            let (kind, seq, is_last) = (row.kind.clone(), row.seq, row.is_last());
            let data = serde_json::to_string(&Event::of(self.run_id, row)).map_err(|_| Over::Ended)?;
            piece.push_str(&frame(&kind, Some(seq), &data));
            if piece.len() < PIECE && rows.len() > 0 && !is_last {
                continue;
            }
            if let Some(piece) = self.offer(std::mem::take(&mut piece).into(), MOMENT).await? {
                more |= rows.len() > 0;
                (fitted, rows) = (Some(read - rows.len()), Vec::new().into_iter());
                self.say(piece).await?;
            }
            self.after = seq;
            if is_last {
                return Err(Over::Ended);
            }
        }
        self.rows = rows_next(self.rows, fitted);
        Ok(more)
    }

    /// What is stored and not said yet. That it is nothing because the run was deleted is told as the end.
    async fn read(&self) -> Result<Vec<EventRecord>, Over> {
        let _turn = self.state.stream_read(self.tenant, STREAM_PATIENCE).await.map_err(|_| Over::Ended)?;
        let reading = async {
            let mut tx = self.state.store.tenant(self.tenant).await?;
            let rows = tx.event_list(self.run_id, self.after, self.rows).await?;
            let goes_on = !rows.is_empty() || tx.run_exists(self.run_id).await?;
            Ok::<_, StoreError>(goes_on.then_some(rows))
        };
        reading.await.map_err(|_| Over::Ended)?.ok_or(Over::Ended)
    }

    async fn say(&mut self, piece: impl Into<Bytes>) -> Result<(), Over> {
        match self.offer(piece.into(), PATIENCE).await? {
            None => Ok(()),
            Some(_) => Err(Over::Cut),
        }
    }

    /// Says it, if there is room for it within `patience`; otherwise it comes back.
    async fn offer(&mut self, piece: Bytes, patience: Duration) -> Result<Option<Bytes>, Over> {
        (self.said_at, self.behind_since) = (Instant::now(), None);
        tokio::select! {
            biased;
            _ = self.stay.over() => Err(Over::Cut),
            back = self.pipe.send(piece, patience) => Ok(back?),
        }
    }
}

/// Rows to read at once after so many were: as many as the reader took before it took no more, or twice as many if it took
/// all of them. What it doesn't take is read again.
fn rows_next(rows: i64, fitted: Option<usize>) -> i64 {
    let next = fitted.map_or(rows * 2, |fitted| i64::try_from(fitted).unwrap_or(ROWS));
    next.clamp(FEW_ROWS, ROWS)
}

/// One event on the wire. `data` is JSON without line breaks.
fn frame(kind: &str, seq: Option<i64>, data: &str) -> String {
    let id = seq.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n")
}
