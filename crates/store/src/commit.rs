//! The one write of the engine: a state and the rows that tell of it, in one round trip (`commit_run` in the migrations).

mod beside;
mod replayed;
mod rows;
mod send;

use answerable_core::Millis;
use answerable_core::id::{ApprovalId, CallId, RunId};
use answerable_core::json::{canonical, sha256_hex};
use answerable_core::run::{ApprovalKind, ApprovalRow, Event, EventType, Record, RunState};
use answerable_faults::{self as faults, Point};
use answerable_ports::commit::{Commit, CommitOutcome, Release};
use answerable_ports::{Lease, Signal, StoreError};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use beside::Beside;
use rows::{approval_row, artifact, call_row, decided, ledger_row, model_row, plain, time};
pub(crate) use rows::{message_row, moment};
use send::{Call, is_stored};

use crate::links;
use crate::outbox::{self, ApprovalFacts, RunFacts, VotesSoFar};
use crate::{Result, Store};

/// What a commit is written with, whatever is in it.
pub(crate) struct CommitWith<'a> {
    /// It leads to this service, for links in what webhooks hear.
    pub(crate) public_url: &'a str,
    /// Spans are to be exported.
    pub(crate) export_spans: bool,
}

impl Store {
    /// Writes all of `commit`, or nothing.
    ///
    /// # Errors
    /// The database is away: whether it was written is then unknown, and the same commit may be sent again.
    pub(crate) async fn commit_run(
        &self,
        lease: Lease,
        seq: i64,
        commit: Commit,
        id: Uuid,
        with: &CommitWith<'_>,
    ) -> Result<CommitOutcome> {
        let ended = matches!(commit.release, Release::End | Release::EndWithLateCalls);
        let parked = matches!(commit.release, Release::Park { .. });
        let known_inbox = commit.known_inbox;
        let beside = Beside::of(&commit.records).ending(&commit.state);
        let late = commit.release == Release::EndWithLateCalls;
        let votes = self.votes_so_far(lease.tenant_id, &commit.records).await?;
        let mut payload = Payload::of(lease, &commit, &votes, |approval, expires_at| {
            links::decision_url(self.sealer(), with.public_url, approval, expires_at)
        });
        payload.export = with.export_spans && !payload.spans.is_empty();
        // As text: it is JSON for PostgreSQL with every digit as it stands here.
        let payload =
            serde_json::to_string(&payload).map_err(|error| StoreError::Broken(error.to_string()))?;
        faults::before(Point::Commit);
        let call = Call { lease, seq, known_inbox, id, payload: &payload };
        let answer = self.send(&call, &beside).await?;
        faults::after(Point::Commit);
        match answer.as_str() {
            stored if is_stored(stored) => {
                self.announce(lease, stored == "told", ended);
                if parked {
                    // A place of its tenant's is free.
                    self.signals().tell(Signal::Work);
                }
                if beside.has_news() {
                    let stopped: Vec<RunId> = beside.stopped().collect();
                    // What its calls came to belongs to its end.
                    self.children_hear(lease.tenant_id, (!late).then_some(lease.run_id), &stopped).await;
                }
                Ok(CommitOutcome::Stored)
            }
            "inbox" => {
                let mut tx = self.working(lease.tenant_id).await?;
                Ok(CommitOutcome::InboxFirst(tx.inbox_after(lease.run_id.0, known_inbox).await?))
            }
            "lost" => Ok(CommitOutcome::LeaseLost),
            "rules" => Ok(CommitOutcome::RulesChanged),
            "approval" => {
                Err(StoreError::Broken("a call would begin by an approval that doesn't allow it".into()))
            }
            other => match other.strip_prefix("key:").and_then(|id| Uuid::try_parse(id).ok()) {
                Some(call) => Ok(CommitOutcome::KeyTaken(CallId(call))),
                None => Err(StoreError::Broken(format!("commit_run answered {other}"))),
            },
        }
    }

    fn announce(&self, lease: Lease, outbox: bool, ended: bool) {
        self.signals().announce(Signal::Progress(lease.run_id.0));
        if outbox {
            self.signals().announce(Signal::Deliveries);
        }
        if ended {
            // The next of its thread or key, or another of its tenant, may start now.
            self.signals().announce(Signal::Work);
        }
    }
}

/// The JSON that `commit_run` reads; what is empty is left out.
#[derive(Serialize, Default)]
struct Payload {
    at: Millis,
    state: Value,
    status: String,
    started: bool,
    stop_reason: Option<String>,
    final_answer: Option<String>,
    error: Option<Value>,
    release: &'static str,
    wake_at: Option<Millis>,
    expires_at: Option<Millis>,
    journal: Vec<Value>,
    /// Of each event in the journal; null: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spans: Vec<Option<Value>>,
    /// They are to be exported.
    export: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps_opened: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    step_models: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps_closed: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls_opened: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls_changed: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ledger_opened: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ledger_changed: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    effects_taken: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approvals_opened: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approvals_closed: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approvals_voided: Vec<Value>,
    /// The oldest number of the tenant's rules by which a call was judged that begins here.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checkpoints: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outbox: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    consumed: Vec<i64>,
}

/// The spans of each event; empty: there are none at all.
fn spans(commit: &Commit) -> Vec<Option<Value>> {
    if commit.spans.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    commit.spans.iter().map(|spans| (!spans.is_empty()).then(|| plain(spans))).collect()
}

impl Payload {
    fn of(
        lease: Lease,
        commit: &Commit,
        votes: &VotesSoFar,
        link: impl Fn(&ApprovalRow, Millis) -> String,
    ) -> Self {
        let state = &commit.state;
        let mut payload = Self {
            at: commit.at,
            state: plain(state),
            status: state.status.as_str().into(),
            started: state.step > 0
                || !state.status.is_terminal()
                || commit.events.iter().any(|event| matches!(event, Event::Started { .. })),
            stop_reason: state.end.as_ref().map(|end| end.reason.as_str().into()),
            release: release_word(commit.release),
            wake_at: match commit.release {
                Release::Park { wake_at } => wake_at,
                _ => None,
            },
            expires_at: expires_at(state),
            journal: commit.events.iter().map(plain).collect(),
            spans: spans(commit),
            consumed: commit.consumed.clone(),
            artifacts: commit.artifacts.iter().map(artifact).collect(),
            ..Self::default()
        };
        debug_assert!(commit.release != Release::Keep || !state.is_ended(), "an ended run keeps no lease");
        let outbox = Outbox { lease, commit, votes, link };
        for record in &commit.records {
            payload.add(record, &outbox);
        }
        payload.merge_changes();
        payload
    }

    fn add<L: Fn(&ApprovalRow, Millis) -> String>(&mut self, record: &Record, outbox: &Outbox<'_, L>) {
        match record {
            Record::Event { kind, step, data } => {
                self.events.push(
                    json!({"event_id": Uuid::now_v7(), "type": kind.as_str(), "step": step, "data": data}),
                );
                if kind.is_for_webhooks() {
                    self.outbox.extend(outbox.entry(*kind, data));
                }
            }
            Record::Message(message) => self.messages.push(message_row(message)),
            Record::StepOpened { number, manifest } => {
                self.steps_opened.push(json!({"number": number, "context": manifest}));
            }
            Record::StepModel { number, model } => self.step_models.push(model_row(*number, model)),
            Record::StepClosed { number } => self.steps_closed.push(*number),
            Record::CallOpened(row) => self.calls_opened.push(call_row(row)),
            Record::CallDecided { call, decision } => self.calls_changed.push(decided(*call, decision)),
            Record::CallEdited { call, input, input_hash } => {
                self.calls_changed.push(json!({"call_id": call.0, "input": input, "input_hash": input_hash}));
            }
            Record::CallResult { call, result, ledger_id } => {
                self.calls_changed.push(
                    json!({"call_id": call.0, "result": result, "ledger_id": ledger_id.map(|id| id.0)}),
                );
            }
            Record::LedgerOpened(row) => {
                self.rules = Some(self.rules.map_or(row.rules, |rules| rules.min(row.rules)));
                self.ledger_opened.push(ledger_row(row));
                self.calls_changed.push(json!({"call_id": row.call.0, "ledger_id": row.id.0}));
            }
            Record::LedgerAttempt { ledger_id, attempt, until } => {
                self.ledger_changed
                    .push(json!({"ledger_id": ledger_id.0, "attempts": attempt, "until": time(*until)}));
            }
            Record::LedgerClosed { ledger_id, outcome } => self.ledger_changed.push(json!({
                "ledger_id": ledger_id.0, "status": outcome.status, "side_effect": outcome.effect,
                "error_code": outcome.error_code,
            })),
            Record::EffectTaken { ledger_id, call } => {
                self.effects_taken.push(json!({"ledger_id": ledger_id.0, "call_id": call.0}));
            }
            // Written beside it.
            Record::ToolsListed { .. } | Record::ChildOpened(_) | Record::ChildStopped { .. } => {}
            Record::ApprovalOpened(row) => self.approvals_opened.push(approval_row(row)),
            Record::ApprovalVoid { approval_id, reason } => {
                self.approvals_voided.push(json!({"approval_id": approval_id.0, "reason": reason}));
            }
            Record::ApprovalClosed { approval_id, status, by } => {
                self.approvals_closed.push(json!({"approval_id": approval_id.0, "status": status, "by": by}));
            }
            Record::Checkpoint(row) => {
                let hash = sha256_hex(canonical(&self.state).as_bytes());
                self.checkpoints.push(json!({"step": row.step, "state_hash": hash}));
            }
            Record::Ended { final_answer, error } => {
                self.final_answer.clone_from(final_answer);
                self.error.clone_from(error);
            }
        }
    }

    /// SQL updates a row once a statement: several changes of one row become one, the later fields win.
    fn merge_changes(&mut self) {
        self.calls_changed = merged(std::mem::take(&mut self.calls_changed), "call_id");
        self.ledger_changed = merged(std::mem::take(&mut self.ledger_changed), "ledger_id");
        self.step_models = merged(std::mem::take(&mut self.step_models), "number");
        self.steps_opened = merged(std::mem::take(&mut self.steps_opened), "number");
        self.approvals_closed = merged(std::mem::take(&mut self.approvals_closed), "approval_id");
    }
}

/// Merges objects that have the same `key`, in the order of their first coming; lists are joined.
fn merged(changes: Vec<Value>, key: &str) -> Vec<Value> {
    let mut out: Vec<Map<String, Value>> = Vec::new();
    for change in changes {
        let Value::Object(change) = change else { continue };
        match out.iter_mut().find(|known| known.get(key) == change.get(key)) {
            None => out.push(change),
            Some(known) => {
                for (name, value) in change {
                    match (known.get_mut(&name), value) {
                        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
                        (_, Value::Null) => {}
                        (_, value) => drop(known.insert(name, value)),
                    }
                }
            }
        }
    }
    out.into_iter().map(Value::Object).collect()
}

/// What webhooks hear of a commit.
struct Outbox<'a, L> {
    lease: Lease,
    commit: &'a Commit,
    votes: &'a VotesSoFar,
    link: L,
}

impl<L: Fn(&ApprovalRow, Millis) -> String> Outbox<'_, L> {
    fn entry(&self, kind: EventType, data: &Value) -> Option<Value> {
        let run = RunFacts::of(self.lease.run_id, self.commit.thread_id, &self.commit.state);
        let at = moment(self.commit.at);
        let (body, body_with_input) = match (kind, outbox::approval_of(data)) {
            (
                EventType::ApprovalRequested | EventType::ApprovalReminder | EventType::ApprovalExpiring,
                Some(id),
            ) => {
                let row = self.asked(id)?;
                let input =
                    self.commit.asked_inputs.iter().find(|(asked, _)| *asked == id).map(|(_, input)| input);
                // A budget has no link: it wants new limits, not a word.
                let link = (row.kind != ApprovalKind::Budget).then(|| (self.link)(row, row.expires_at));
                let facts = ApprovalFacts { row, input, votes: self.votes.get(&id) };
                outbox::approval_asked(kind, at, &run, &facts, link.as_deref())
            }
            (EventType::ApprovalDecided, _) => outbox::approval_decided(at, &run, data),
            _ => outbox::run_event(kind, at, &run),
        };
        Some(json!({"type": kind.as_str(), "body": body, "body_with_input": body_with_input}))
    }

    fn asked(&self, id: ApprovalId) -> Option<&ApprovalRow> {
        let opened = self.commit.records.iter().find_map(|record| match record {
            Record::ApprovalOpened(row) if row.id == id => Some(&**row),
            _ => None,
        });
        let open = || self.commit.state.open_approvals.iter().find(|open| open.row.id == id);
        opened.or_else(|| open().map(|open| &open.row))
    }
}

fn release_word(release: Release) -> &'static str {
    match release {
        Release::Keep => "keep",
        Release::Park { .. } => "park",
        Release::End => "end",
        Release::EndWithLateCalls => "end_late",
    }
}

/// When a run's time is over, whatever it waits for: people have no clock, a queue has.
fn expires_at(state: &RunState) -> Option<Millis> {
    [state.deadline, state.clock.due(state.budgets.timeout_ms)].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_row_become_one() {
        let changes = vec![
            json!({"id": 1, "a": 1, "l": [1]}),
            json!({"id": 2, "a": 5}),
            json!({"id": 1, "b": 2, "a": null, "l": [2]}),
        ];
        assert_eq!(
            merged(changes, "id"),
            [json!({"id": 1, "a": 1, "b": 2, "l": [1, 2]}), json!({"id": 2, "a": 5})]
        );
    }
}
