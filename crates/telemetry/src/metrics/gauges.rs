//! What is true at the moment of reading out: of this process, asked then; of the whole database, as it was counted last.
//!
//! Reading out never asks the database: it costs it nothing, and works while it is away.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use answerable_ports::{Gauges, Waiting};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

/// What is true of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process {
    /// Runs that it works on.
    pub running: u64,
    /// Connections to the database in use.
    pub connections_in_use: u64,
    /// Connections to the database.
    pub connections: u64,
}

type Asked = Box<dyn Fn() -> Process + Send + Sync>;

/// Where the gauges are read from.
pub(super) struct Watched {
    began: Instant,
    process: OnceLock<Asked>,
    counted: Mutex<Option<(Gauges, Instant)>>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Watched {
    pub(super) fn of(meter: &Meter) -> Arc<Self> {
        let (process, counted) = (OnceLock::new(), Mutex::default());
        let watched = Arc::new(Self { began: Instant::now(), process, counted });
        watched.add_process(meter);
        watched.add_queue(meter);
        watched.add_people(meter);
        watched.add_outgoing(meter);
        watched
    }

    pub(super) fn ask(&self, process: Asked) {
        // There is one process.
        let _ = self.process.set(process);
    }

    pub(super) fn count(&self, gauges: Gauges) {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some((gauges, Instant::now()));
    }

    fn process(&self) -> Process {
        self.process.get().map(|ask| ask()).unwrap_or_default()
    }

    fn counted(&self) -> Option<Gauges> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).map(|(gauges, _)| gauges)
    }

    fn age(&self) -> Duration {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.map_or(self.began, |(_, at)| at).elapsed()
    }

    fn add_process(self: &Arc<Self>, meter: &Meter) {
        let watched = Arc::clone(self);
        meter
            .u64_observable_gauge("answerable.runs.running")
            .with_description("Runs that this process works on")
            .with_callback(move |gauge| gauge.observe(watched.process().running, &[]))
            .build();
        let watched = Arc::clone(self);
        meter
            .u64_observable_gauge("answerable.db.connections")
            .with_description("Connections of this process to the database")
            .with_callback(move |gauge| {
                let now = watched.process();
                gauge.observe(now.connections_in_use, &[KeyValue::new("state", "used")]);
                let idle = now.connections.saturating_sub(now.connections_in_use);
                gauge.observe(idle, &[KeyValue::new("state", "idle")]);
            })
            .build();
        let watched = Arc::clone(self);
        meter
            .f64_observable_gauge("answerable.gauges.age")
            .with_unit("s")
            .with_description("Time since the gauges of the whole database were counted last")
            .with_callback(move |gauge| gauge.observe(watched.age().as_secs_f64(), &[]))
            .build();
    }

    fn add_queue(self: &Arc<Self>, meter: &Meter) {
        self.add(meter, "answerable.queue.depth", "Runs that wait for a server", |gauges| gauges.queue);
        self.add_age(
            meter,
            "answerable.queue.oldest_age",
            "Time that the oldest run waits for a server, of those that could be claimed",
            |gauges| gauges.queue,
        );
    }

    fn add_people(self: &Arc<Self>, meter: &Meter) {
        let watched = Arc::clone(self);
        meter
            .u64_observable_gauge("answerable.approvals.pending")
            .with_description(of_all("Approvals that wait for people, by what is asked"))
            .with_callback(move |gauge| {
                for (kind, waiting) in watched.counted().into_iter().flat_map(|gauges| gauges.approvals) {
                    gauge.observe(waiting.count, &[KeyValue::new("kind", kind.as_str())]);
                }
            })
            .build();
        let watched = Arc::clone(self);
        meter
            .f64_observable_gauge("answerable.approvals.oldest_age")
            .with_unit("s")
            .with_description(of_all("Time that the oldest approval waits for people, by what is asked"))
            .with_callback(move |gauge| {
                for (kind, waiting) in watched.counted().into_iter().flat_map(|gauges| gauges.approvals) {
                    gauge.observe(waiting.longest.as_secs_f64(), &[KeyValue::new("kind", kind.as_str())]);
                }
            })
            .build();
        let about = "Effects of which nobody knows whether they happened, and that nobody has settled";
        self.add(meter, "answerable.ledger.uncertain", about, |gauges| gauges.uncertain);
        let about = "Time since the oldest effect that nobody has settled became uncertain";
        self.add_age(meter, "answerable.ledger.uncertain_oldest_age", about, |gauges| gauges.uncertain);
    }

    fn add_outgoing(self: &Arc<Self>, meter: &Meter) {
        let about = "Webhook deliveries that have not arrived yet and are not given up";
        self.add(meter, "answerable.webhooks.pending", about, |gauges| gauges.deliveries);
        let about = "Time since the oldest webhook delivery that should have been tried was due";
        self.add_age(meter, "answerable.webhooks.oldest_age", about, |gauges| gauges.deliveries);
    }

    fn add(
        self: &Arc<Self>,
        meter: &Meter,
        name: &'static str,
        about: &str,
        of: impl Fn(&Gauges) -> Waiting + Send + Sync + 'static,
    ) {
        let watched = Arc::clone(self);
        let gauge = meter.u64_observable_gauge(name).with_description(of_all(about));
        let observed = move |gauge: &dyn opentelemetry::metrics::AsyncInstrument<u64>| {
            if let Some(gauges) = watched.counted() {
                gauge.observe(of(&gauges).count, &[]);
            }
        };
        gauge.with_callback(observed).build();
    }

    fn add_age(
        self: &Arc<Self>,
        meter: &Meter,
        name: &'static str,
        about: &str,
        of: impl Fn(&Gauges) -> Waiting + Send + Sync + 'static,
    ) {
        let watched = Arc::clone(self);
        let gauge = meter.f64_observable_gauge(name).with_unit("s").with_description(of_all(about));
        let observed = move |gauge: &dyn opentelemetry::metrics::AsyncInstrument<f64>| {
            if let Some(gauges) = watched.counted() {
                gauge.observe(of(&gauges).longest.as_secs_f64(), &[]);
            }
        };
        gauge.with_callback(observed).build();
    }
}

/// Servers that share a database count the same things: they must not be added up.
fn of_all(about: &str) -> String {
    format!("{about}. Of the whole database: every server of it says the same, so take the max, not the sum")
}
