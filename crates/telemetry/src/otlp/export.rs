//! The task that empties the outbox into a collector. Runs know nothing of it: their spans wait, here or in the outbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answerable_ports::{SpanBatch, SpanOutbox};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::deliver::{Delivered, Trouble, deliver};
use super::exporter::{Parcel, SpanExporter};
use super::health::Health;
use super::stats::{Dropped, ExportStats};

/// Batches are taken for a minute. No request begins later than this after it, and none may take longer than
/// [`LONGEST_TIMEOUT`]: what one server is sending no other one sends.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// The longest that a request may take.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(45);
/// Time for the last spans when the server stops.
const LAST: Duration = Duration::from_secs(2);
/// Time to give back what didn't leave.
const GIVING_BACK: Duration = Duration::from_millis(500);
/// Between two looks at the backlog, more or less.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How much is sent at a time, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Time between two looks into an outbox that was empty.
    pub every: Duration,
    /// Most commits of which a request has the spans.
    pub batch: usize,
    /// Most commits whose spans wait; over that the oldest are dropped.
    pub backlog: u64,
}

/// Sends what waits in `outbox` until `stop`, then once more for at most two seconds.
pub async fn run(
    outbox: Arc<dyn SpanOutbox>,
    exporter: SpanExporter,
    pace: Pace,
    stop: CancellationToken,
    stats: Arc<ExportStats>,
) {
    let upkeep = look_after(&*outbox, pace.backlog, &stats);
    let mut export = Export::new(&*outbox, &exporter, pace, &stats);
    let ending = async {
        stop.cancelled().await;
        sleep(LAST).await;
    };
    tokio::select! {
        () = export.work(&stop) => {}
        () = ending => {}
        () = upkeep => {}
    }
    export.let_go().await;
}

struct Export<'a> {
    outbox: &'a dyn SpanOutbox,
    exporter: &'a SpanExporter,
    pace: Pace,
    stats: &'a ExportStats,
    /// What was taken and isn't settled.
    held: Vec<i64>,
    collector: Health,
    store: Health,
    /// What the collector said last.
    remark: Option<String>,
}

/// What follows a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// There is more.
    AtOnce,
    /// After a pause.
    After(Duration),
}

impl<'a> Export<'a> {
    fn new(
        outbox: &'a dyn SpanOutbox,
        exporter: &'a SpanExporter,
        pace: Pace,
        stats: &'a ExportStats,
    ) -> Self {
        let (collector, store) = (Health::default(), Health::default());
        Self { outbox, exporter, pace, stats, held: Vec::new(), collector, store, remark: None }
    }

    async fn work(&mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Next::After(pause) = self.round().await {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = sleep(pause) => {}
                }
            }
        }
        while self.round().await == Next::AtOnce {}
    }

    async fn round(&mut self) -> Next {
        let until = Instant::now() + BEGIN_WITHIN;
        let batches = match self.outbox.take(self.pace.batch).await {
            Ok(batches) => batches,
            Err(error) => return self.store_failed(&error),
        };
        if batches.is_empty() {
            self.store_worked();
            return Next::After(self.pace.every.mul_f64(rand::random_range(0.8..1.2)));
        }
        let full = batches.len() >= self.pace.batch;
        let pruned = batches.iter().filter(|batch| batch.spans.is_empty()).count();
        self.held = batches.iter().map(|batch| batch.number).collect();
        let parcels = together(batches).iter().map(Parcel::of).collect();
        let delivered = deliver(self.exporter, parcels, until).await;
        self.count(&delivered);
        if let Err(error) = self.settle(&delivered).await {
            return self.store_failed(&error);
        }
        self.stats.dropped(Dropped::Pruned, u64::try_from(pruned).unwrap_or(u64::MAX));
        self.store_worked();
        match delivered.trouble {
            Some(trouble) => self.collector_failed(&trouble),
            None => {
                self.collector_worked();
                if full { Next::AtOnce } else { Next::After(self.pace.every) }
            }
        }
    }

    /// Tells the outbox. What it doesn't hear of comes up again in a minute, just as it was.
    async fn settle(&mut self, delivered: &Delivered) -> Result<(), answerable_ports::StoreError> {
        let gone: Vec<i64> = delivered.arrived.iter().chain(&delivered.refused).copied().collect();
        if !gone.is_empty() {
            self.outbox.acknowledge(&gone).await?;
        }
        self.held.clone_from(&delivered.left);
        if !self.held.is_empty() {
            self.outbox.give_back(&self.held).await?;
            self.held.clear();
        }
        Ok(())
    }

    fn count(&mut self, delivered: &Delivered) {
        self.stats.exported(delivered.exported);
        self.stats.dropped(Dropped::Refused, delivered.dropped);
        // A collector may say the same to each request.
        if delivered.remark.is_some() && delivered.remark != self.remark {
            let said = delivered.remark.as_deref().unwrap_or_default();
            tracing::warn!(
                dropped = delivered.dropped,
                collector = self.exporter.shown(),
                said,
                "the collector has something to say about spans; those that it refuses aren't sent again"
            );
            self.remark.clone_from(&delivered.remark);
        }
    }

    fn collector_failed(&mut self, trouble: &Trouble) -> Next {
        self.stats.failed();
        if self.collector.failed() {
            tracing::warn!(
                collector = self.exporter.shown(),
                error = trouble.why,
                "the collector takes no spans; they wait"
            );
        }
        Next::After(self.collector.pause(trouble.after, rand::random()))
    }

    fn collector_worked(&mut self) {
        if let Some(away) = self.collector.worked() {
            let (collector, away_s) = (self.exporter.shown(), away.as_secs());
            tracing::info!(collector, away_s, "the collector takes spans again");
        }
    }

    fn store_failed(&mut self, error: &answerable_ports::StoreError) -> Next {
        self.stats.failed();
        if self.store.failed() {
            tracing::warn!(%error, "spans can't be read for export; it is tried again");
        }
        Next::After(self.store.pause(None, rand::random()))
    }

    fn store_worked(&mut self) {
        if let Some(away) = self.store.worked() {
            tracing::info!(away_s = away.as_secs(), "spans can be read for export again");
        }
    }

    /// What was being sent when the time was over is for another server, at once.
    async fn let_go(&self) {
        if self.held.is_empty() {
            return;
        }
        match timeout(GIVING_BACK, self.outbox.give_back(&self.held)).await {
            Ok(Ok(())) => {
                tracing::info!(commits = self.held.len(), "spans are left for another server to export")
            }
            Ok(Err(_)) | Err(_) => tracing::info!(
                commits = self.held.len(),
                "spans are left for another server to export, in a minute"
            ),
        }
    }
}

/// Commits of one trace beside one another, in their order.
fn together(mut batches: Vec<SpanBatch>) -> Vec<SpanBatch> {
    batches.sort_by(|a, b| (&a.trace_id, a.number).cmp(&(&b.trace_id, b.number)));
    batches
}

/// Keeps the backlog within its bound, and measures it.
async fn look_after(outbox: &dyn SpanOutbox, keep: u64, stats: &ExportStats) {
    loop {
        match outbox.trim(keep).await {
            Ok(0) => {}
            Ok(commits) => {
                stats.dropped(Dropped::Backlog, commits);
                tracing::warn!(
                    commits,
                    keep,
                    "more spans wait than are kept: the oldest are not exported any more"
                );
            }
            // Whoever takes spans out tells of a database that is away.
            Err(error) => tracing::debug!(%error, "the backlog of spans was not trimmed"),
        }
        if let Ok(backlog) = outbox.backlog().await {
            stats.backlog(backlog);
        }
        sleep(LOOK_EVERY.mul_f64(rand::random_range(0.8..1.2))).await;
    }
}
