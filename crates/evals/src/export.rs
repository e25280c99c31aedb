//! A case out of a run.

mod agent;
mod parts;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{
    Action, AnswerExpected, CallExpected, Case, Condition, Expect, LedgerExpected, Model, Range,
    ToolsExpected, Words,
};
use crate::read::{Form, Unreadable, from_value};
use crate::yaml;

/// How long the model speaks while something is said to the run.
const STEER_TIME: Duration = Duration::from_millis(1000);

/// The text of a case that plays an exported run again: in the forms in which people write cases, and with what came of
/// the run as what is expected.
///
/// # Errors
/// What is exported is no run's that has come to an end or a wait, or has a number that YAML doesn't keep.
pub fn case_of(export: Value, name: Option<&str>, form: Form) -> Result<String, Unreadable> {
    let case = from_value(export, "")?;
    let mut written: Vec<(&str, Value)> = Vec::new();
    let mut put = |key: &'static str, value: Option<Value>| written.extend(value.map(|value| (key, value)));
    put("name", name.map(Value::from));
    put("description", Some(description(&case).into()));
    put("input", Some(parts::input(&case)));
    put("context", case.context.clone().filter(|context| !context.is_empty()).map(Value::Object));
    put("budgets", agent::own_budgets(&case));
    put("policy", case.policy.clone().map(Value::Object));
    put("agent", Some(agent::brief(&case.agent)));
    put("model", Some(parts::model(&case)));
    put("tools", parts::tools(&case));
    put("actions", parts::actions(&case));
    put("expect", serde_json::to_value(&case.expect).ok());
    match form {
        Form::Yaml => yaml::document(&notes(&case), &written).map_err(Unreadable),
        Form::Json => {
            let map: Value = written.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            Ok(format!("{map:#}\n"))
        }
    }
}

fn description(case: &Case) -> String {
    let run = case.run_id.as_deref().unwrap_or("a run");
    let outcome = case.outcome.clone().unwrap_or(json!({}));
    let text = |name: &str| outcome.get(name).and_then(Value::as_str).map(str::to_owned);
    let end = text("stop_reason").or_else(|| text("status")).unwrap_or_default();
    format!("Made from {run} ({end}).")
}

/// What the case can't bring about again, and its reader must see to.
fn notes(case: &Case) -> Vec<&'static str> {
    let outcome = |name: &str| case.outcome.as_ref().and_then(|outcome| outcome.get(name)?.as_str());
    let has_expired = case.decisions.iter().any(|decision| decision.by == "expiry");
    [
        (case.is_heir(), "The run stands on another one, whose messages are not here: add them to `input`."),
        (
            case.lacks_attachments,
            "Images and files that were sent to the run are not here; a line of text stands for each.",
        ),
        (
            outcome("status") == Some("cancelled"),
            "The run was cancelled, and its export does not tell when: say so in `actions`.",
        ),
        (
            outcome("stop_reason") == Some("max_cost"),
            "What the model costs is its provider's to say: give its `prices`.",
        ),
        (
            matches!(
                outcome("stop_reason"),
                Some("timeout" | "approval_expired" | "crash_loop" | "internal_error")
            ),
            "The run was ended by time or by its servers, which a case does not repeat by itself.",
        ),
        (has_expired, "A question to people had expired; here it is denied at once."),
    ]
    .into_iter()
    .filter_map(|(holds, note)| holds.then_some(note))
    .collect()
}

/// What is expected where a case says nothing: what came of the run that it was made from. What a play can't bring about
/// again, such as times and the prices of a provider, is left out.
pub(crate) fn expected(case: &Case) -> Result<Expect, String> {
    let outcome = case.outcome.as_ref().ok_or("expect is missing: a case says what must hold")?;
    let text = |name: &str| outcome.get(name).and_then(Value::as_str).map(str::to_owned);
    let status = text("status").ok_or("outcome.status is missing")?;
    if matches!(status.as_str(), "queued" | "running") {
        return Err("outcome: the run had not ended when it was exported".to_owned());
    }
    let ended_well = status == "finished";
    let answer = text("final_answer").filter(|_| ended_well);
    let code = outcome.pointer("/error/code").and_then(Value::as_str).map(str::to_owned);
    let ledger = entries(outcome);
    let denied: Vec<String> = names(outcome.get("denied"));
    let uncertain = ledger.iter().filter(|entry| entry.status.as_deref() == Some("uncertain")).count();
    Ok(Expect {
        stop_reason: text("stop_reason").filter(|_| status == "failed"),
        status: Some(status),
        error_code: code,
        answer: answer.map(|equals| AnswerExpected { equals: Some(equals), ..AnswerExpected::default() }),
        tools: called(&ledger),
        no_denied_action: denied.is_empty().then_some(true),
        denied: (!denied.is_empty()).then_some(Words(denied)),
        ledger: (!ledger.is_empty()).then_some(ledger),
        uncertain: (uncertain > 0).then(|| Range::exactly(uncertain as u64)),
        steps: own(case, outcome, "steps"),
        tool_calls: own(case, outcome, "tool_calls"),
        ..Expect::default()
    })
}

/// How much of something a run used that stands on no other.
fn own(case: &Case, outcome: &Value, name: &str) -> Option<Range> {
    let used = outcome.get("used")?.get(name)?.as_u64()?;
    (!case.is_heir()).then(|| Range::exactly(used))
}

fn entries(outcome: &Value) -> Vec<LedgerExpected> {
    let entries = outcome.get("ledger").and_then(Value::as_array).into_iter().flatten();
    let entry = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        LedgerExpected {
            tool_name: text("tool_name"),
            status: text("status"),
            side_effect: text("side_effect"),
            ..LedgerExpected::default()
        }
    };
    entries.map(entry).collect()
}

fn names(calls: Option<&Value>) -> Vec<String> {
    let calls = calls.and_then(Value::as_array).into_iter().flatten();
    calls.filter_map(|call| Some(call.get("tool_name")?.as_str()?.to_owned())).collect()
}

/// How often each tool ran, by the ledger.
fn called(ledger: &[LedgerExpected]) -> Option<ToolsExpected> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for name in ledger.iter().filter_map(|entry| entry.tool_name.as_deref()) {
        *counts.entry(name).or_default() += 1;
    }
    let call = |(name, count): (&str, u64)| CallExpected {
        name: name.to_owned(),
        times: (count > 1).then(|| Range::at_least(count)),
        input: None,
        result: None,
        error_code: None,
    };
    let called: Vec<CallExpected> = counts.into_iter().map(call).collect();
    (!called.is_empty()).then_some(ToolsExpected { called, ..ToolsExpected::default() })
}

impl Case {
    /// Whether the run that it was made from stands on another, whose history the case doesn't have.
    pub(crate) fn is_heir(&self) -> bool {
        let Model::Replies(replies) = &self.model else { return false };
        replies.first().and_then(|reply| reply.step).is_some_and(|step| step > 1)
    }

    /// Says to the run what was said to the one that it was made from: while the model still speaks in the step before
    /// the one that the word joined.
    pub(crate) fn repeat_steers(&mut self) {
        for steer in std::mem::take(&mut self.steers) {
            let Model::Replies(replies) = &mut self.model else { return };
            let before =
                replies.iter().filter(|reply| reply.step.is_some_and(|step| step < steer.step)).count();
            if let Some(reply) = before.checked_sub(1).and_then(|last| replies.get_mut(last)) {
                reply.delay = reply.delay.max(STEER_TIME);
                self.actions.push(Action::Wait(Condition::Asked(before as u64)));
            }
            self.lacks_attachments |= !steer.parts.is_empty();
            self.actions.push(Action::Steer(words::of(&steer.content, &steer.parts)));
        }
    }
}
