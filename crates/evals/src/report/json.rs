//! The report as JSON, for programs.

use serde_json::{Value, json};

use super::{CaseReport, Play, Report, Verdict};

/// The whole report.
#[must_use]
pub fn to_json(report: &Report) -> Value {
    let plays: usize = report.cases.iter().map(|case| case.plays.len()).sum();
    json!({
        "object": "eval_report",
        "version": 1,
        "passed": report.count(Verdict::Failed) == 0,
        "pass_rate": report.pass_rate,
        "duration_ms": millis(report.took),
        "totals": {
            "cases": report.cases.len(),
            "passed": report.count(Verdict::Passed),
            "failed": report.count(Verdict::Failed),
            "skipped": report.count(Verdict::Skipped),
            "plays": plays,
        },
        "cases": report.cases.iter().map(|one| case(one, report.pass_rate)).collect::<Vec<_>>(),
    })
}

fn case(case: &CaseReport, pass_rate: f64) -> Value {
    json!({
        "name": case.name,
        "file": case.file,
        "tags": case.tags,
        "verdict": case.verdict(pass_rate).word(),
        "skipped": case.skipped,
        "pass_rate": if case.plays.is_empty() { Value::Null } else { json!(case.rate()) },
        "plays": case.plays.iter().map(play).collect::<Vec<_>>(),
    })
}

fn play(play: &Play) -> Value {
    let findings = play
        .findings
        .iter()
        .map(|finding| json!({"place": finding.place, "expected": finding.expected, "got": finding.got}));
    json!({
        "passed": play.passed(),
        "findings": findings.collect::<Vec<_>>(),
        "duration_ms": millis(play.took),
        "run": play.run.as_ref().map(|run| json!({
            "id": run.id,
            "status": run.status,
            "stop_reason": run.stop_reason,
            "steps": run.steps,
            "tool_calls": run.tool_calls,
            "tokens": run.tokens,
            "cost_microusd": run.cost_microusd,
        })),
        "story": play.story,
    })
}

fn millis(took: std::time::Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
