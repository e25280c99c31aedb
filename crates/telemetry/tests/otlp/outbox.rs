//! An outbox in memory, by the port's rules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use answerable_core::id::{RunId, TenantId};
use answerable_core::trace::Span;
use answerable_ports::{SpanBacklog, SpanBatch, SpanOutbox, StoreError};
use async_trait::async_trait;
use serde_json::json;
use tokio::sync::watch;

#[derive(Default)]
struct Inner {
    waiting: BTreeMap<i64, (SpanBatch, bool)>,
    trimmed_to: Vec<u64>,
    away: bool,
}

/// What waits; whether somebody has taken it.
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    left: watch::Sender<usize>,
}

impl Outbox {
    pub(crate) fn of(batches: Vec<SpanBatch>) -> Arc<Self> {
        let outbox = Arc::new(Self { inner: Mutex::default(), left: watch::Sender::new(0) });
        outbox.add(batches);
        outbox
    }

    pub(crate) fn add(&self, batches: Vec<SpanBatch>) {
        self.change(|inner| {
            inner.waiting.extend(batches.into_iter().map(|batch| (batch.number, (batch, false))))
        });
    }

    pub(crate) fn goes_away(&self, away: bool) {
        self.change(|inner| inner.away = away);
    }

    /// The numbers of what is there, and whether each is taken.
    pub(crate) fn waiting(&self) -> Vec<(i64, bool)> {
        let inner = self.inner.lock().expect("a lock");
        inner.waiting.iter().map(|(number, (_, taken))| (*number, *taken)).collect()
    }

    pub(crate) fn trimmed_to(&self) -> Vec<u64> {
        self.inner.lock().expect("a lock").trimmed_to.clone()
    }

    /// Waits until no more than `count` are there.
    pub(crate) async fn until(&self, count: usize) {
        let mut left = self.left.subscribe();
        let waited =
            tokio::time::timeout(std::time::Duration::from_secs(20), left.wait_for(|left| *left <= count))
                .await;
        waited.expect("they leave in time").expect("the outbox lives");
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock().expect("a lock");
        let changed = change(&mut inner);
        self.left.send_replace(inner.waiting.len());
        changed
    }

    fn there(&self) -> Result<(), StoreError> {
        match self.inner.lock().expect("a lock").away {
            true => Err(StoreError::Away("a test".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl SpanOutbox for Outbox {
    async fn take(&self, limit: usize) -> Result<Vec<SpanBatch>, StoreError> {
        self.there()?;
        Ok(self.change(|inner| {
            let free = inner.waiting.values_mut().filter(|(_, taken)| !*taken).take(limit);
            free.map(|(batch, taken)| {
                *taken = true;
                batch.clone()
            })
            .collect()
        }))
    }

    async fn acknowledge(&self, numbers: &[i64]) -> Result<(), StoreError> {
        self.there()?;
        self.change(|inner| inner.waiting.retain(|number, _| !numbers.contains(number)));
        Ok(())
    }

    async fn give_back(&self, numbers: &[i64]) -> Result<(), StoreError> {
        self.there()?;
        self.change(|inner| {
            for number in numbers {
                inner.waiting.get_mut(number).expect("it is there").1 = false;
            }
        });
        Ok(())
    }

    async fn trim(&self, keep: u64) -> Result<u64, StoreError> {
        self.there()?;
        Ok(self.change(|inner| {
            inner.trimmed_to.push(keep);
            let over = inner.waiting.len().saturating_sub(usize::try_from(keep).expect("few"));
            let free = inner.waiting.iter().filter(|(_, (_, taken))| !*taken).map(|(number, _)| *number);
            let oldest: Vec<i64> = free.take(over).collect();
            oldest.iter().for_each(|number| {
                inner.waiting.remove(number);
            });
            u64::try_from(over).expect("few")
        }))
    }

    async fn backlog(&self) -> Result<SpanBacklog, StoreError> {
        self.there()?;
        let waiting = u64::try_from(self.waiting().len()).expect("few");
        Ok(SpanBacklog { waiting, oldest_ms: if waiting > 0 { 1500 } else { 0 } })
    }
}

/// Commit `number`, with a model's call and a tool's.
pub(crate) fn batch(number: i64) -> SpanBatch {
    SpanBatch {
        number,
        tenant_id: TenantId(uuid::Uuid::nil()),
        run_id: RunId(uuid::Uuid::nil()),
        trace_id: format!("{:032x}", number % 3 + 1),
        spans: vec![span("model", number, 1), span("tool", number, 2)],
    }
}

fn span(kind: &str, number: i64, nth: i64) -> Span {
    let stored = json!({
        "kind": kind,
        "id": format!("{:016x}", number * 16 + nth),
        "parent": "00000000000000ff",
        "began": 1_700_000_000_000_i64 + number,
        "ended": 1_700_000_001_000_i64 + number,
        "attributes": {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": number, "answerable.cost_usd": 0.25,
            "answerable.cached": false, "gen_ai.response.finish_reasons": ["stop"]}
    });
    serde_json::from_value(stored).expect("a span")
}
