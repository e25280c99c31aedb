//! The weeks of events and journal, and the gaps between them, whose rows stand in the default partition.

use uuid::Uuid;

use super::Keep;
use crate::error::store_error;
use crate::tx::SystemTx;
use crate::{Result, Store};

/// A week is over for so long before its events can go: ids are made by clocks that may differ.
const EVENTS_DAYS: i32 = 1;

/// Run ids from `low` to before `high`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// Of the journal; else of events.
    pub(super) is_journal: bool,
    /// The partition; `None`: a gap.
    pub(super) part: Option<String>,
    pub(super) low: Uuid,
    pub(super) high: Uuid,
    /// Its last run was accepted so long ago that it could go, if no run needs it.
    pub(super) is_past: bool,
}

impl Span {
    /// Whether single rows are taken out of it: of a week that still goes on they wait for the others, to go with them.
    pub(super) fn is_thinned_out(&self) -> bool {
        self.is_journal && (self.is_past || self.part.is_none())
    }
}

/// All partitions, and the gaps between those of the journal.
pub(super) async fn spans(store: &Store, keep: Keep) -> Result<Vec<Span>> {
    let mut tx = store.system().await?;
    let rows = sqlx::query!(
        r#"SELECT parent = 'journal' AS "is_journal!", part AS "part!", low AS "low!", high AS "high!",
               high <= uuid_floor(greatest('epoch', now() - make_interval(
                   days => CASE WHEN parent = 'journal' THEN $1::integer ELSE $2 END))) AS "is_past!"
           FROM partition_spans() ORDER BY parent, low"#,
        keep.journal(),
        EVENTS_DAYS,
    )
    .fetch_all(tx.conn())
    .await
    .map_err(store_error)?;
    let mut spans: Vec<Span> = rows
        .into_iter()
        .map(|row| Span {
            is_journal: row.is_journal,
            part: Some(row.part),
            low: row.low,
            high: row.high,
            is_past: row.is_past,
        })
        .collect();
    let gaps = gaps(spans.iter().filter(|span| span.is_journal));
    spans.extend(gaps);
    Ok(spans)
}

/// What lies before, between and after partitions that are in order.
fn gaps<'s>(partitions: impl Iterator<Item = &'s Span>) -> Vec<Span> {
    let gap = |low, high| Span { is_journal: true, part: None, low, high, is_past: false };
    let (mut gaps, mut low) = (Vec::new(), Uuid::nil());
    for span in partitions {
        if low < span.low {
            gaps.push(gap(low, span.low));
        }
        low = span.high;
    }
    gaps.push(gap(low, Uuid::max()));
    gaps
}

impl SystemTx {
    /// Whether a run of the span lives, or ended within so many days.
    pub(super) async fn journal_is_needed(&mut self, span: &Span, days: i32) -> Result<bool> {
        sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM runs WHERE run_id >= $1 AND run_id < $2
                   AND (finished_at IS NULL OR finished_at > now() - make_interval(days => $3))) AS "needed!""#,
            span.low,
            span.high,
            days,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }

    /// Whether a run of the span exists; `days`: one that lives, or ended within so many days.
    pub(super) async fn events_are_needed(&mut self, span: &Span, days: Option<i32>) -> Result<bool> {
        sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM runs WHERE run_id >= $1 AND run_id < $2
                   AND ($3::integer IS NULL OR finished_at IS NULL OR finished_at > now() - make_interval(days => $3))
               ) AS "needed!""#,
            span.low,
            span.high,
            days,
        )
        .fetch_one(self.conn())
        .await
        .map_err(store_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn week(low: u128, high: u128) -> Span {
        let (low, high) = (Uuid::from_u128(low), Uuid::from_u128(high));
        Span { is_journal: true, part: Some("journal_x".into()), low, high, is_past: true }
    }

    #[test]
    fn gaps_and_weeks_hold_every_id_once() {
        let ends = |weeks: &[Span]| -> Vec<(u128, u128)> {
            gaps(weeks.iter()).iter().map(|gap| (gap.low.as_u128(), gap.high.as_u128())).collect()
        };
        assert_eq!(ends(&[]), [(0, u128::MAX)]);
        assert_eq!(ends(&[week(0, 5)]), [(5, u128::MAX)]);
        assert_eq!(ends(&[week(3, 5), week(5, 7), week(9, 12)]), [(0, 3), (7, 9), (12, u128::MAX)]);
    }
}
