//! The line of each kind of event.

use serde_json::Value;

use super::words::{after, cost, field, number, shown, text, tokens};
use super::{Line, Tone};

pub(super) fn run_line(what: &str, data: &Value) -> Line {
    let (words, tone) = match what {
        "waiting" => (format!("waits{}", after(" for ", text(data, "for"))), Tone::Waiting),
        "finished" => ("finished".to_owned(), Tone::Good),
        "failed" | "cancelled" => {
            let reason = text(data, "stop_reason").filter(|reason| *reason != what);
            (format!("{what}{}", after(": ", reason)), Tone::Bad)
        }
        other => (shown(other), Tone::Plain),
    };
    ("run", words, tone)
}

pub(super) fn model_line(what: &str, data: &Value, took: Option<String>) -> Line {
    let name =
        [text(data, "provider"), text(data, "model")].into_iter().flatten().collect::<Vec<_>>().join("/");
    let mut parts = Vec::new();
    let tone = match what {
        "started" => {
            parts.push(format!(
                "asks {}",
                if name.is_empty() { "the model".to_owned() } else { shown(&name) }
            ));
            Tone::Faint
        }
        "completed" => {
            parts.push(format!("replied{}", after(" in ", took.as_deref())));
            parts.extend(tokens(data));
            parts.extend(cost(data));
            parts.extend(text(data, "finish_reason").map(shown));
            Tone::Plain
        }
        _ => {
            parts.push(format!("{}{}", shown(what), after(", attempt ", number(data, "attempt").as_deref())));
            parts.extend(number(data, "status").map(|status| format!("status {status}")));
            parts.extend(text(data, "error").map(shown));
            parts.extend(number(data, "retry_in_ms").map(|wait| format!("again in {wait} ms")));
            Tone::Bad
        }
    };
    ("model", parts.join(" · "), tone)
}

pub(super) fn decision_line(data: &Value) -> Line {
    let effect = field(data, "effect").and_then(Value::as_str).unwrap_or("decided");
    let (words, tone) = match effect {
        "allow" => ("allowed", Tone::Good),
        "deny" => ("denied", Tone::Bad),
        "ask" => ("needs a person", Tone::Waiting),
        other => (other, Tone::Plain),
    };
    let by = field(data, "by").and_then(Value::as_str).filter(|by| *by != "policy");
    let reason = field(data, "reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
    ("policy", format!("{} {}{}{}", tool(data), shown(words), after(" by ", by), after(": ", reason)), tone)
}

pub(super) fn tool_line(what: &str, data: &Value, took: Option<String>) -> Line {
    let status = field(data, "status").and_then(Value::as_str);
    let code = field(data, "error_code").and_then(Value::as_str);
    let (words, tone) = match what {
        "started" => ("is called".to_owned(), Tone::Faint),
        "completed" => {
            let status = status.unwrap_or("completed");
            let attempts = field(data, "attempt").or_else(|| field(data, "attempts")).and_then(Value::as_i64);
            let tries = attempts.filter(|n| *n > 1).map(|n| format!("{n} attempts"));
            let words = format!("{}{}", shown(status), after(" in ", took.as_deref()));
            let tone = if status == "succeeded" { Tone::Good } else { Tone::Bad };
            (format!("{words}{}{}", after(" · ", code), after(" · ", tries.as_deref())), tone)
        }
        "rejected" => {
            let why = text(data, "validation").or(code).or(text(data, "reason"));
            (format!("rejected, not run{}", after(": ", why)), Tone::Bad)
        }
        "reconciled" => {
            let found = match text(data, "state") {
                Some("applied") => "was asked: it happened",
                Some("not_applied") => "was asked: it did not happen",
                _ => "was asked: it can't say",
            };
            (found.to_owned(), Tone::Waiting)
        }
        other => (shown(other), Tone::Plain),
    };
    ("tool", format!("{} {words}", tool(data)), tone)
}

pub(super) fn approval_line(what: &str, data: &Value) -> Line {
    let id = text(data, "approval_id").unwrap_or_default();
    let decision = text(data, "status").or_else(|| text(data, "decision"));
    let by = text(data, "decided_by").or_else(|| text(data, "by"));
    match what {
        "requested" => {
            let reason = after(": ", text(data, "reason").filter(|reason| !reason.is_empty()));
            ("approval", format!("{} waits for a decision, {}{reason}", tool(data), shown(id)), Tone::Waiting)
        }
        _ => {
            let tone = if decision.is_some_and(|d| d.starts_with("appr") || d.starts_with("answer")) {
                Tone::Good
            } else {
                Tone::Bad
            };
            (
                "approval",
                format!("{} {}{}", tool(data), shown(decision.unwrap_or("decided")), after(" by ", by)),
                tone,
            )
        }
    }
}

pub(super) fn summary_line(what: &str, data: &Value) -> Line {
    let (words, tone) = match what {
        "summarizing" => {
            let covered = number(data, "covered").unwrap_or_default();
            (format!("too long: {covered} messages are summed up"), Tone::Faint)
        }
        "summarized" => {
            let parts = [Some("summed up".to_owned()), tokens(data), cost(data)];
            (parts.into_iter().flatten().collect::<Vec<_>>().join(" · "), Tone::Plain)
        }
        _ => {
            let again = number(data, "retry_in_ms").map(|wait| format!(" · again in {wait} ms"));
            let then = again.unwrap_or_else(|| " · done without".to_owned());
            (format!("no summary{}{then}", after(": ", text(data, "error"))), Tone::Bad)
        }
    };
    ("context", words, tone)
}

pub(super) fn context_line(data: &Value) -> Line {
    let omitted = data.get("omitted").and_then(|omitted| match omitted {
        Value::Array(list) => u64::try_from(list.len()).ok(),
        other => other.as_u64(),
    });
    let mut parts: Vec<String> =
        number(data, "tokens").map(|n| format!("about {n} tokens")).into_iter().collect();
    parts.extend(omitted.filter(|n| *n > 0).map(|n| format!("{n} messages left out")));
    let words = if parts.is_empty() { "built".to_owned() } else { parts.join(" · ") };
    ("context", words, Tone::Faint)
}

pub(super) fn tools_line(data: &Value) -> Line {
    let count = |name: &str| data.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let missing = data.get("missing").and_then(Value::as_array).into_iter().flatten();
    let mut parts = vec![format!("{} listed", count("tools"))];
    parts.extend(Some(count("left_out")).filter(|n| *n > 0).map(|n| format!("{n} left out")));
    parts.extend(missing.filter_map(|one| Some(format!("without {}", shown(text(one, "server")?)))));
    let tone = if count("missing") > 0 { Tone::Bad } else { Tone::Faint };
    ("tools", parts.join(" · "), tone)
}

fn tool(data: &Value) -> String {
    shown(text(data, "tool_name").unwrap_or("a call"))
}
