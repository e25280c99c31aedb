//! What policies say of a call, as people read it.

use serde_json::Value;

use crate::timeline::printable;

/// Characters of a hash that tell it from others.
const SHORT_HASH: usize = 12;

/// All of it: the verdict, then each policy with its rules, then the remembered approvals.
pub(super) fn lines(told: &Value) -> String {
    let mut lines = verdict(told);
    for policy in list(told, "policies") {
        lines.push(String::new());
        lines.extend(of_policy(policy));
    }
    let grants = list(told, "grants");
    if !grants.is_empty() {
        lines.extend([String::new(), "remembered approvals".to_owned()]);
    }
    for grant in grants {
        let word = if is(grant, "covers") { "covers it" } else { "doesn't" };
        lines.push(format!("  {}  {word}: {}", text(grant, "id"), words(grant, "why")));
    }
    if let Some(left_out) =
        told.get("grants_left_out").and_then(Value::as_u64).filter(|left_out| *left_out > 0)
    {
        lines.push(format!("  and {left_out} more, which don't cover it"));
    }
    printable(&lines.join("\n"))
}

fn verdict(told: &Value) -> Vec<String> {
    let outcome = match text(told, "outcome") {
        "runs" => "it would run",
        "asks" => "people would be asked",
        "denied" => "it would be denied",
        _ => "it would be rejected before any policy is asked: its input isn't legal",
    };
    let mut lines = vec![format!("{} ({} risk): {outcome}", text(told, "tool_name"), text(told, "risk"))];
    for finding in list(told, "findings") {
        lines.push(format!("  input{}: {}", text(finding, "pointer"), words(finding, "message")));
    }
    lines.push(format!("  {}: {}", whose(told), words(told, "reason")));
    if text(told, "effect") == "ask" {
        lines.push(format!("  {}", demands(told)));
    }
    lines
}

/// Who says so: a rule of a policy, a policy's default, a remembered approval, or nobody who can judge.
fn whose(told: &Value) -> String {
    let by = text(told, "by");
    if by.starts_with("grant:") {
        return by.to_owned();
    }
    let place =
        told.get("rule").and_then(Value::as_u64).map_or("default".to_owned(), |rule| format!("rule {rule}"));
    match text(told, "policy") {
        "" => "nobody".to_owned(),
        owner => format!("{owner}'s policy {}, {place}", short(text(told, "policy_version"))),
    }
}

fn demands(told: &Value) -> String {
    let people = match told.get("approvals").and_then(Value::as_u64) {
        Some(1) | None => "one decider".to_owned(),
        Some(many) => format!("{many} different deciders"),
    };
    let who = if is(told, "self_approval") { "" } else { ", none of those who started the run" };
    let time = |name: &str| told.get(name).and_then(Value::as_u64).map(duration);
    let reminded =
        time("remind_every_ms").map(|every| format!("; reminded every {every}")).unwrap_or_default();
    let then = if text(told, "on_expiry") == "stop" { "the run ends" } else { "it is denied" };
    let within = time("expires_ms").unwrap_or_default();
    format!("{people}{who}, within {within}, or {then}{reminded}")
}

fn of_policy(policy: &Value) -> Vec<String> {
    let verdict = match text(policy, "verdict") {
        "" => "says nothing",
        effect => effect,
    };
    let version = Some(short(text(policy, "version"))).filter(|version| !version.is_empty());
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let mut lines = vec![format!("{}'s policy{version}: {verdict}", text(policy, "owner"))];
    if let Some(fault) = policy.get("fault").and_then(Value::as_str) {
        lines.push(format!("  it can't be judged: {fault}"));
        return lines;
    }
    for rule in list(policy, "rules") {
        lines.extend(of_rule(rule));
    }
    let default = policy.get("default").unwrap_or(&Value::Null);
    let mark = if is(default, "applies") { "●" } else { " " };
    lines.push(format!("{mark} default  {}", words(default, "why")));
    lines
}

/// A rule in a line, and a line for each of its parts. `●` has a say in the verdict, `○` matches and something stricter does,
/// too.
fn of_rule(rule: &Value) -> Vec<String> {
    let mark = match (is(rule, "decides"), is(rule, "matched")) {
        (true, _) => "●",
        (false, true) => "○",
        (false, false) => " ",
    };
    let index = rule.get("index").and_then(Value::as_u64).unwrap_or_default();
    let word = if is(rule, "matched") { "matches" } else { "doesn't match" };
    let reason = Some(words(rule, "reason")).filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(" ({reason})"));
    let mut lines =
        vec![format!("{mark} {index:>3}  {:<5}  {word}{}", text(rule, "effect"), reason.unwrap_or_default())];
    for part in ["tool", "risk", "input", "context"].iter().filter_map(|name| rule.get("parts")?.get(name)) {
        if part.is_null() {
            continue;
        }
        let word = if is(part, "matched") { "yes" } else { "no " };
        lines.push(format!("            {word} {}", words(part, "why")));
        for error in list(part, "errors") {
            lines.push(format!("                {} {}", text(error, "pointer"), words(error, "message")));
        }
    }
    lines
}

/// In the largest unit that it is whole in.
fn duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let whole = units.into_iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1, "ms"));
    format!("{} {name}", ms / unit)
}

/// A number as it is, a hash cut short.
fn short(version: &str) -> String {
    version.trim_start_matches("sha256:").chars().take(SHORT_HASH).collect()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Words of others, on one line.
fn words(value: &Value, name: &str) -> String {
    text(value, name).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_person_reads_why() {
        let part = |matched: bool, why: &str, errors: Value| json!({"matched": matched, "why": why, "errors": errors});
        let rules = [
            json!({"index": 0, "effect": "deny", "reason": null, "matched": false, "decides": false, "parts": {
                "tool": part(true, "it fits", json!([])), "risk": null, "context": null,
                "input": part(false, "it doesn't fit", json!([{"pointer": "/cents", "message": "too few"}]))}}),
            json!({"index": 1, "effect": "ask", "reason": "over 50", "matched": true, "decides": true, "parts": {}}),
            json!({"index": 2, "effect": "allow", "reason": null, "matched": true, "decides": false, "parts": {}}),
        ];
        let policies = [
            json!({"owner": "agent", "version": "sha256:0123456789abcdef", "rules": [], "verdict": "allow", "fault": null,
                "default": {"applies": true, "effect": "allow", "why": "no rule matches"}}),
            json!({"owner": "tenant", "version": "3", "verdict": "ask", "fault": null, "rules": rules,
                "default": {"applies": false, "effect": null, "why": "a rule matches"}}),
            json!({"owner": "run", "version": "", "rules": [], "verdict": "deny", "fault": "/rules: no\u{1b}[2J list",
                "default": {"applies": false}}),
        ];
        let told = json!({
            "tool_name": "refund", "risk": "high", "outcome": "asks", "findings": [], "effect": "ask", "rule": 1,
            "policy": "tenant", "policy_version": "3", "by": "policy", "reason": "over 50", "approvals": 2,
            "self_approval": false, "expires_ms": 3_600_000, "on_expiry": "stop", "remind_every_ms": 600_000,
            "policies": policies, "grants": [{"id": "grt_1", "covers": false, "why": "it has expired"}], "grants_left_out": 7,
        });
        let wanted = "\
refund (high risk): people would be asked
  tenant's policy 3, rule 1: over 50
  2 different deciders, none of those who started the run, within 1 h, or the run ends; reminded every 10 min

agent's policy 0123456789ab: allow
● default  no rule matches

tenant's policy 3: ask
    0  deny   doesn't match
            yes it fits
            no  it doesn't fit
                /cents too few
●   1  ask    matches (over 50)
○   2  allow  matches
  default  a rule matches

run's policy: deny
  it can't be judged: /rules: no�[2J list

remembered approvals
  grt_1  doesn't: it has expired
  and 7 more, which don't cover it";
        assert_eq!(lines(&told), wanted);
    }

    #[test]
    fn an_illegal_call_says_what_is_wrong() {
        let told = json!({"tool_name": "refund", "risk": "low", "outcome": "rejected", "effect": "allow", "by": "policy",
            "reason": "", "policy": null, "findings": [{"pointer": "/cents", "message": "is no integer"}]});
        assert!(lines(&told).contains("rejected before any policy is asked"));
        assert!(lines(&told).contains("  input/cents: is no integer"), "{}", lines(&told));
    }
}
