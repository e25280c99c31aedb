//! What is exported, by OpenTelemetry's own variables (`OTEL_*`).
//!
//! Nothing is exported until an endpoint is set, or `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER` asks for it. Their
//! values come from the environment alone, and variables that mean nothing here are let pass: they are meant for others.

mod pairs;
mod target;

use std::time::Duration;

use answerable_telemetry::otlp::{Service, Target};

use super::{Invalid, read};
use target::{Signal, target};

/// What leaves the service to be seen elsewhere.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Where spans go; `None`: nowhere.
    pub spans: Option<Target>,
    /// Time between two looks for spans.
    pub spans_every: Duration,
    /// Most commits of which a request has the spans.
    pub spans_batch: usize,
    /// Most commits whose spans wait; over that the oldest are dropped.
    pub backlog: u64,
    /// Where metrics are sent, beside `/metrics`; `None`: nowhere.
    pub metrics: Option<Target>,
    /// Time between two sendings.
    pub metrics_every: Duration,
    /// Who this is for whoever receives them.
    pub service: Service,
    /// What models and tools said may go into spans, where the agent wants it.
    pub content: bool,
}

impl Telemetry {
    /// This server's spans are exported.
    #[must_use]
    pub fn exports_spans(&self) -> bool {
        self.spans.is_some()
    }
}

pub(crate) const DEFAULT_BACKLOG: u64 = 100_000;
const DEFAULT_SPANS_EVERY_MS: u64 = 1_000;
const DEFAULT_SPANS_BATCH: u64 = 512;
const DEFAULT_METRICS_EVERY_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;

/// Reads the variables; `find` gives the text of one, if it is set.
pub(crate) fn telemetry<'a>(
    find: &'a dyn Fn(&str) -> Option<&'a str>,
    backlog: u64,
) -> Result<Telemetry, Invalid> {
    let variables = Variables { find };
    let ms = |name, default| {
        let ms = variables.get(name, |text| read::whole(text, 1..=HOUR_MS))?;
        Ok(Duration::from_millis(ms.unwrap_or(default)))
    };
    let batch = variables.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", |text| read::whole(text, 1..=10_000))?;
    Ok(Telemetry {
        spans: export(variables, Signal::Traces)?,
        spans_every: ms("OTEL_BSP_SCHEDULE_DELAY", DEFAULT_SPANS_EVERY_MS)?,
        spans_batch: usize::try_from(batch.unwrap_or(DEFAULT_SPANS_BATCH)).unwrap_or(usize::MAX),
        backlog,
        metrics: export(variables, Signal::Metrics)?,
        metrics_every: ms("OTEL_METRIC_EXPORT_INTERVAL", DEFAULT_METRICS_EVERY_MS)?,
        service: service(variables)?,
        content: variables.get(CONTENT, content)?.unwrap_or(false),
    })
}

/// The variable of the GenAI conventions that lets content out.
const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Whether content may go into spans. Besides the first form, true or false, there are words for where it may go; events
/// of OpenTelemetry are not sent here.
fn content(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "true" | "span_only" | "span_and_event" => Ok(true),
        "false" | "no_content" | "event_only" => Ok(false),
        _ => Err(format!("is {text:?}, and true, false, SPAN_ONLY or NO_CONTENT is needed")),
    }
}

/// The variables that are set. As OpenTelemetry has it, an empty one isn't.
#[derive(Clone, Copy)]
struct Variables<'a> {
    find: &'a dyn Fn(&str) -> Option<&'a str>,
}

impl Variables<'_> {
    /// Reads a variable with `read`, whose error is a reason that follows its name.
    fn get<T>(self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, Invalid> {
        let text = (self.find)(name).map(str::trim).filter(|text| !text.is_empty());
        text.map(read).transpose().map_err(|reason| Invalid(format!("{name} {reason}")))
    }
}

/// Where a signal goes, if it is exported.
fn export(variables: Variables<'_>, signal: Signal) -> Result<Option<Target>, Invalid> {
    let disabled = variables.get("OTEL_SDK_DISABLED", |text| match text.to_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("is {text:?}, and true or false is needed")),
    })?;
    let asked = variables.get(&signal.exporter(), |text| asks_for_otlp(text, signal))?;
    let has_endpoint = || {
        target::names("ENDPOINT", signal)
            .iter()
            .any(|name| (variables.find)(name).is_some_and(|text| !text.trim().is_empty()))
    };
    if disabled == Some(true) || !asked.unwrap_or_else(has_endpoint) {
        return Ok(None);
    }
    target(variables, signal).map(Some)
}

/// Whether a list of exporters names OTLP.
fn asks_for_otlp(text: &str, signal: Signal) -> Result<bool, String> {
    let known = signal.exporters();
    let asked: Vec<String> = text.split(',').map(|name| name.trim().to_lowercase()).collect();
    if let Some(unknown) = asked.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("names {unknown:?}, and there is {}", known.join(", ")));
    }
    match asked.iter().any(|name| name == "none") && asked.len() > 1 {
        true => Err("names none beside others".to_owned()),
        false => Ok(asked.iter().any(|name| name == "otlp")),
    }
}

fn service(variables: Variables<'_>) -> Result<Service, Invalid> {
    let name = variables.get("OTEL_SERVICE_NAME", |text| Ok(text.to_owned()))?;
    let attributes = variables.get("OTEL_RESOURCE_ATTRIBUTES", pairs::read)?;
    Ok(Service::new(name, attributes.unwrap_or_default()))
}

#[cfg(test)]
mod tests;
