//! What a client does next: drawn from the seed, so that the same seed gives the same jobs.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::witness::drawn;
use crate::world::model::script::Script;

/// Kinds of runs, and how often each is drawn.
const KINDS: [(&str, u32); 13] = [
    ("read", 12),
    ("long", 8),
    ("talk", 5),
    ("pay", 14),
    ("ship", 10),
    ("slow_ship", 7),
    ("mail", 7),
    ("note", 5),
    ("bill", 4),
    ("reserve", 8),
    ("refund", 8),
    ("confirm", 6),
    ("mix", 12),
];

/// How many jobs in a row share three slots.
const SAME_SLOTS: u64 = 80;

/// A run, and what is done to it. Delays are in milliseconds after it was accepted.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) script: Script,
    pub(super) key: String,
    pub(super) prefer_wait: Option<u64>,
    pub(super) priority: i64,
    pub(super) not_before_ms: Option<u64>,
    pub(super) concurrency_key: Option<String>,
    pub(super) in_thread: bool,
    pub(super) cancel_after_ms: Option<u64>,
    pub(super) steer_after_ms: Option<u64>,
    pub(super) budget_after_ms: Option<u64>,
    pub(super) is_followed: bool,
}

impl Job {
    /// The n-th job of the clients together.
    pub(super) fn draw(seed: u64, n: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(drawn(seed, &["job", &n.to_string()]));
        let kind = KINDS.choose_weighted(&mut rng, |kind| kind.1).map_or("read", |kind| kind.0);
        let steps = match kind {
            "long" => rng.random_range(8..20),
            "talk" => 0,
            _ => rng.random_range(1..6),
        };
        let mut maybe = |percent: u32, range: std::ops::Range<u64>| {
            let delay = rng.random_range(range);
            (rng.random_range(0..100) < percent).then_some(delay)
        };
        Self {
            prefer_wait: maybe(10, 1..6),
            not_before_ms: maybe(5, 300..3000),
            cancel_after_ms: maybe(10, 0..5000),
            steer_after_ms: maybe(12, 0..4000),
            budget_after_ms: maybe(8, 0..2000),
            concurrency_key: maybe(6, 0..4).map(|n| format!("lane-{n}")),
            in_thread: maybe(10, 0..1).is_some(),
            is_followed: maybe(40, 0..1).is_some(),
            priority: maybe(20, 0..21).map_or(0, |n| i64::try_from(n).unwrap_or_default() - 10),
            ..Self::plain(seed, n, kind, steps)
        }
    }

    /// A run with one call of the tool `poison`, to which nothing is done.
    pub(super) fn poison(seed: u64, n: u64) -> Self {
        Self::plain(seed, n, "poison", 1)
    }

    fn plain(seed: u64, n: u64, kind: &str, steps: usize) -> Self {
        let tag = format!("s{seed}-{n}");
        // Neighbours want one of three slots, so some of them the same.
        let slot = format!("slot-s{seed}-{}-{}", n / SAME_SLOTS, drawn(seed, &["slot", &tag]) % 3);
        Self {
            key: format!("job-{tag}"),
            script: Script { tag, kind: kind.to_owned(), steps, slot },
            prefer_wait: None,
            priority: 0,
            not_before_ms: None,
            concurrency_key: None,
            in_thread: false,
            cancel_after_ms: None,
            steer_after_ms: None,
            budget_after_ms: None,
            is_followed: false,
        }
    }

    /// The body of `POST /v1/runs`; the same on every try.
    pub(super) fn body(&self, agent_id: &str, thread_id: Option<&str>) -> Value {
        let mut body = json!({
            "agent_id": agent_id, "input": self.script.message(), "priority": self.priority,
            "metadata": {"tag": self.script.tag},
        });
        if self.budget_after_ms.is_some() {
            body["budgets"] = json!({"max_steps": 30});
        }
        let more = [("concurrency_key", self.concurrency_key.as_deref()), ("thread_id", thread_id)];
        for (name, value) in more {
            if let Some(value) = value {
                body[name] = value.into();
            }
        }
        if let Some(delay) = self.not_before_ms {
            let at = chrono::Utc::now()
                + chrono::TimeDelta::milliseconds(i64::try_from(delay).unwrap_or_default());
            body["not_before"] = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true).into();
        }
        body
    }
}
