//! The instruments that are recorded as things happen: names, units, and what they mean.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use super::bounds;

/// Limits whose use ends a run, as `stop_reason` names them.
pub(super) const LIMITS: [&str; 5] = ["max_steps", "max_tokens", "max_tool_calls", "max_cost", "timeout"];

/// Why requests are turned away.
pub(super) const SHED: [&str; 6] =
    ["requests", "requests_of_one", "streams", "streams_of_one", "connections", "connections_of_one"];

#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) runs: Counter<u64>,
    pub(super) accepted_to_start: Histogram<f64>,
    pub(super) claim_to_start: Histogram<f64>,
    pub(super) steps: Counter<u64>,
    pub(super) step_seconds: Histogram<f64>,
    pub(super) commit_seconds: Histogram<f64>,
    pub(super) commit_failures: Counter<u64>,
    pub(super) operation_seconds: Histogram<f64>,
    pub(super) tokens: Histogram<u64>,
    pub(super) cost: Counter<u64>,
    pub(super) model_failures: Counter<u64>,
    pub(super) summaries: Counter<u64>,
    pub(super) tool_seconds: Histogram<f64>,
    pub(super) decisions: Counter<u64>,
    pub(super) approvals: Counter<u64>,
    pub(super) budget_stops: Counter<u64>,
    pub(super) budget_asks: Counter<u64>,
    pub(super) takeovers: Counter<u64>,
    pub(super) leases_lost: Counter<u64>,
    pub(super) request_seconds: Histogram<f64>,
    pub(super) shed: Counter<u64>,
}

impl Instruments {
    pub(super) fn of(meter: &Meter) -> Self {
        let seconds = |name: &'static str, about: &'static str, bounds: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        let work = |name, about| seconds(name, about, &bounds::WORK);
        let counter =
            |name: &'static str, about: &'static str| meter.u64_counter(name).with_description(about).build();
        let instruments = Self {
            runs: counter("answerable.runs", "Runs begun, and runs ended by status and stop reason"),
            accepted_to_start: work(
                "answerable.run.accepted_to_start",
                "Time from a run's acceptance, or the moment before which it was not to start, to its start",
            ),
            claim_to_start: work(
                "answerable.run.claim_to_start",
                "Time from the claim of a new run to its start",
            ),
            steps: counter("answerable.steps", "Steps begun"),
            step_seconds: work(
                "answerable.step.duration",
                "Time of steps that one server took from begin to end, without waiting for people",
            ),
            commit_seconds: work("answerable.commit.duration", "Time that the store takes for a commit"),
            commit_failures: counter(
                "answerable.commit.failures",
                "Commits that came to nothing and were sent again",
            ),
            operation_seconds: seconds(
                "gen_ai.client.operation.duration",
                "Time of attempts on models (chat), attempts of tool calls (execute_tool) and runs (invoke_agent)",
                &bounds::OPERATION,
            ),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Tokens of attempts on models")
                .with_boundaries(bounds::TOKENS.to_vec())
                .build(),
            cost: counter("answerable.model.cost_microusd", "Price of attempts on models, in micro-USD"),
            model_failures: counter(
                "answerable.model.failures",
                "Attempts on models that came to nothing, replies of no use included",
            ),
            summaries: counter(
                "answerable.context.summaries",
                "Summaries of histories that outgrew their room: made, and given up",
            ),
            tool_seconds: work(
                "answerable.tool.duration",
                "Time of tool calls with all their attempts, by outcome",
            ),
            decisions: counter("answerable.permission.decisions", "Decisions of the permission gate"),
            approvals: counter("answerable.approvals", "Approvals asked for, and what became of them"),
            budget_stops: counter("answerable.budget.stops", "Runs stopped by a limit of their budget"),
            budget_asks: counter("answerable.budget.asks", "Times that people were asked for more budget"),
            takeovers: counter("answerable.lease.takeovers", "Runs taken over from dead servers"),
            leases_lost: counter("answerable.lease.lost", "Leases lost or given up"),
            request_seconds: seconds(
                "http.server.request.duration",
                "Time of requests to the API",
                &bounds::HTTP,
            ),
            shed: counter(
                "answerable.requests.shed",
                "Requests, streams and connections turned away because a server, or one's part of it, was full; of \
                 connections: how often all places were taken",
            ),
        };
        instruments.begin();
        instruments
    }

    /// What has few values begins at zero, so that the first time is seen as a rise.
    fn begin(&self) {
        for counter in [
            &self.steps,
            &self.commit_failures,
            &self.model_failures,
            &self.budget_asks,
            &self.takeovers,
            &self.leases_lost,
        ] {
            counter.add(0, &[]);
        }
        for limit in LIMITS {
            self.budget_stops.add(0, &[KeyValue::new("limit", limit)]);
        }
        for status in ["made", "given_up"] {
            self.summaries.add(0, &[KeyValue::new("status", status)]);
        }
        for reason in SHED {
            self.shed.add(0, &[KeyValue::new("reason", reason)]);
        }
        for effect in ["allow", "deny", "ask"] {
            self.decisions.add(0, &[KeyValue::new("effect", effect)]);
        }
    }
}
