//! Forgetting what is old: answers kept for repeated requests, settled deliveries, runs, journals, and the partitions that
//! nothing is left in. One server at a time does it, in small transactions, and waits for nobody's locks.

mod alone;
mod preview;
mod rows;
mod spans;

use std::future::Future;

use uuid::Uuid;

use crate::{Result, Store};
use alone::{Alone, Dropped};
use spans::{Span, spans};

/// How long what has ended is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// The journal of ended runs and settled deliveries, in days, from 1.
    pub journal_days: u16,
    /// Ended runs, in days, from 1; `None`: until somebody deletes them.
    pub runs_days: Option<u16>,
}

impl Keep {
    fn journal(self) -> i32 {
        i32::from(self.journal_days.max(1))
    }

    fn runs(self) -> Option<i32> {
        self.runs_days.map(|days| i32::from(days.max(1)))
    }
}

/// What went, or would go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Kept answers to requests with an idempotency key.
    pub idempotency_keys: u64,
    /// Settled deliveries of webhooks; those of deleted runs aren't counted apart.
    pub deliveries: u64,
    /// Runs, with all that belonged to them.
    pub runs: u64,
    /// Rows of journals of ended runs, in weeks that could not go whole.
    pub journal_rows: u64,
    /// Partitions of the journal.
    pub journal_partitions: u64,
    /// Partitions of events.
    pub event_partitions: u64,
    /// Partitions that could go and were in use: for the next time.
    pub in_use: u64,
    /// There may be more: the bound was reached first.
    pub more: bool,
}

impl Pruned {
    /// Whether anything went.
    pub fn is_empty(&self) -> bool {
        let all = [self.idempotency_keys, self.deliveries, self.runs, self.journal_rows];
        all.iter().all(|gone| *gone == 0) && self.journal_partitions + self.event_partitions == 0
    }
}

impl Store {
    /// Takes away what is old enough, at most `batches` small transactions of each kind. `direct_url` leads past any pooler,
    /// as the role that owns the tables. `None`: another server is at it.
    ///
    /// # Errors
    /// The database is away, or the role may not do it. What went until then is gone.
    pub async fn prune(&self, direct_url: &str, keep: Keep, batches: u32) -> Result<Option<Pruned>> {
        let Some(mut alone) = Alone::begin(direct_url).await? else { return Ok(None) };
        let mut gone = Pruned::default();
        let (count, more) = often(batches, || self.answers_forget()).await?;
        (gone.idempotency_keys, gone.more) = (count, more);
        gone.more |= self.deliveries_end(batches).await?;
        gone.more |= self.usage_sum_up(batches).await?;
        let (count, more) = often(batches, || self.deliveries_forget(keep.journal())).await?;
        (gone.deliveries, gone.more) = (count, gone.more | more);
        // Runs that can't go keep nothing else from going.
        let runs = match keep.runs() {
            Some(days) => often(batches, || self.runs_forget(days)).await,
            None => Ok((0, false)),
        };
        let rest = self.partitions_drop(&mut alone, keep, &mut gone).await?;
        self.journal_thin_out(&rest, keep, batches, &mut gone).await?;
        let (count, more) = runs?;
        (gone.runs, gone.more) = (count, gone.more | more);
        alone.end().await?;
        Ok(Some(gone))
    }

    /// Ends what nobody will take, and takes nothing away; whether there may be more.
    async fn deliveries_end(&self, batches: u32) -> Result<bool> {
        for _ in 0..batches {
            if self.deliveries_end_overdue().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sums up days that are over; whether there may be more.
    async fn usage_sum_up(&self, batches: u32) -> Result<bool> {
        for _ in 0..batches {
            if self.days_fold().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Drops the weeks that nobody needs any more. Gives those spans out of which single rows go.
    async fn partitions_drop(&self, alone: &mut Alone, keep: Keep, gone: &mut Pruned) -> Result<Vec<Span>> {
        let mut rest = Vec::new();
        for span in spans(self, keep).await? {
            match &span.part {
                Some(part) if span.is_past && !self.span_is_needed(&span, keep, None).await? => {
                    match alone.drop_partition(part).await? {
                        Dropped::InUse => gone.in_use += 1,
                        Dropped::Done if span.is_journal => gone.journal_partitions += 1,
                        Dropped::Done => gone.event_partitions += 1,
                    }
                }
                _ => rest.extend(span.is_thinned_out().then_some(span)),
            }
        }
        Ok(rest)
    }

    /// Weeks of which a run is still needed lose the journals of the others, one run after another; so do journals that
    /// stand in no week's partition.
    async fn journal_thin_out(
        &self,
        spans: &[Span],
        keep: Keep,
        batches: u32,
        gone: &mut Pruned,
    ) -> Result<()> {
        let mut left = batches;
        for span in spans {
            let mut after = Some((Uuid::nil(), Uuid::nil()));
            while let Some(place) = after {
                if left == 0 {
                    gone.more = true;
                    return Ok(());
                }
                left -= 1;
                let walked = self.journal_forget(span, place, keep.journal()).await?;
                gone.journal_rows += walked.rows;
                after = walked.last;
            }
        }
        Ok(())
    }

    /// Whether a run of the span needs it: its events as long as it exists, its journal while it lives and for a time after
    /// its end. `runs_days`: as if runs were gone that ended so long ago.
    async fn span_is_needed(&self, span: &Span, keep: Keep, runs_days: Option<i32>) -> Result<bool> {
        let mut tx = self.system().await?;
        if span.is_journal {
            tx.journal_is_needed(span, keep.journal()).await
        } else {
            tx.events_are_needed(span, runs_days).await
        }
    }
}

/// Does `batch` until it finds nothing more, at most so often. Gives what went, and whether there may be more.
async fn often<F: Future<Output = Result<Batch>>>(most: u32, batch: impl Fn() -> F) -> Result<(u64, bool)> {
    let mut gone = 0;
    for _ in 0..most {
        let done = batch().await?;
        gone += done.gone;
        if done.is_last {
            return Ok((gone, false));
        }
    }
    Ok((gone, true))
}

/// What one small transaction did.
struct Batch {
    gone: u64,
    /// Nothing is left, or nothing that can go now.
    is_last: bool,
}
