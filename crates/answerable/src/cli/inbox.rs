//! What waits for people, as `answerable approve` and `answerable deny` list it.

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::output::say;
use super::remote::Api;
use crate::Failure;
use crate::timeline::printable;

/// Most characters of a call's input in the list.
const LONGEST_INPUT: usize = 2000;

#[derive(Args)]
pub(super) struct Filters {
    /// List only what waits in this run
    #[arg(long, value_name = "RUN_ID", conflicts_with = "ids")]
    run: Option<String>,
    /// List only what waits in runs of this agent
    #[arg(long, value_name = "AGENT_ID", conflicts_with = "ids")]
    agent: Option<String>,
    /// List only what waits in runs of this thread
    #[arg(long, value_name = "THREAD_ID", conflicts_with = "ids")]
    thread: Option<String>,
    /// List only calls of this tool
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    tool: Option<String>,
    /// List only questions of this kind
    #[arg(long, conflicts_with = "ids", value_parser = ["tool_call", "uncertain_effect", "budget"])]
    kind: Option<String>,
    /// List only calls of tools with this risk
    #[arg(long, conflicts_with = "ids", value_parser = ["low", "medium", "high", "critical"])]
    risk: Option<String>,
    /// List only what must be decided before this moment (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with = "ids")]
    expires_before: Option<String>,
    /// The newest first, or what must be decided first
    #[arg(long, conflicts_with = "ids", value_parser = ["newest", "expires"])]
    order: Option<String>,
}

impl Filters {
    fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let given = [
            ("run_id", &self.run),
            ("agent_id", &self.agent),
            ("thread_id", &self.thread),
            ("tool_name", &self.tool),
            ("kind", &self.kind),
            ("risk", &self.risk),
            ("expires_before", &self.expires_before),
            ("order", &self.order),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

/// Lists what waits for a decision.
pub(super) async fn list(api: &Api, filters: &Filters, as_json: bool) -> Result<(), Failure> {
    let mut cursor: Option<String> = None;
    let mut count = 0_usize;
    loop {
        let mut url = api.url(&["v1", "approvals"]);
        url.query_pairs_mut()
            .append_pair("status", "pending")
            .extend_pairs(filters.pairs())
            .extend_pairs(cursor.iter().map(|cursor| ("cursor", cursor)));
        let page = api.send(Method::GET, url, None, &[]).await?;
        for approval in page.get("data").and_then(Value::as_array).into_iter().flatten() {
            count += 1;
            say(&if as_json { approval.to_string() } else { entry(approval) })?;
        }
        let next = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        if next.is_none() || next == cursor {
            break;
        }
        cursor = next;
    }
    if count == 0 && !as_json {
        say("Nothing waits for a decision.")?;
    }
    Ok(())
}

/// An approval as people read it: which, of what, why, who has a say, and the arguments.
pub(super) fn entry(approval: &Value) -> String {
    let text = |name: &str| approval.get(name).and_then(Value::as_str);
    let what = match text("kind") {
        Some("uncertain_effect") => "did this call take effect?",
        Some("budget") => "may the run go over its limits?",
        _ => "may this call run?",
    };
    let tool = text("tool_name").unwrap_or("the run");
    let mut lines = vec![format!("{}  {tool}: {what}", text("id").unwrap_or("?"))];
    let mut line = |label: &str, text: Option<&str>| {
        lines.extend(text.map(|text| format!("    {label:<7} {text}")));
    };
    line("run", text("run_id"));
    line("risk", text("risk"));
    line("reason", text("reason"));
    line("until", text("expires_at"));
    line("needs", needs(approval).as_deref());
    line(
        "anew",
        text("replaces").map(|id| format!("{id} is void: what it was given for has changed")).as_deref(),
    );
    if let Some(input) = approval.get("input").filter(|input| !input.is_null()) {
        let whole = input.to_string();
        let shown: String = whole.chars().take(LONGEST_INPUT).collect();
        let cut = if shown.len() < whole.len() { "… (cut; --json shows all)" } else { "" };
        line("input", Some(&format!("{shown}{cut}")));
    }
    printable(&lines.join("\n"))
}

/// Who must agree, where it isn't just anybody.
fn needs(approval: &Value) -> Option<String> {
    let required = approval.get("required").and_then(Value::as_u64).unwrap_or(1);
    let votes = approval.get("votes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let said = |vote: &Value| {
        let text = |name: &str| vote.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
        format!("{}: {}", text("by"), text("decision"))
    };
    let mut parts = Vec::new();
    if required > 1 || !votes.is_empty() {
        parts.push(format!("{required} who agree"));
        parts.extend(votes.iter().map(said));
    }
    if approval.get("self_approval").and_then(Value::as_bool) == Some(false) {
        parts.push("not of whoever started the run".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_shows_what_is_decided() {
        let approval = json!({"id": "apr_1", "run_id": "run_1", "kind": "tool_call", "tool_name": "refund",
            "risk": "high", "reason": "over 50", "input": {"order": 7}, "expires_at": null, "required": 1, "votes": []});
        assert_eq!(
            entry(&approval),
            "apr_1  refund: may this call run?\n    run     run_1\n    risk    high\n    reason  over 50\n    input   {\"order\":7}"
        );
        let long = json!({"id": "apr_1", "tool_name": "t\u{1b}[2J", "input": {"text": "x".repeat(3000)}});
        assert!(entry(&long).ends_with("… (cut; --json shows all)") && !entry(&long).contains('\u{1b}'));
    }

    #[test]
    fn an_entry_shows_who_must_agree_and_that_it_is_asked_anew() {
        let approval = json!({"id": "apr_2", "kind": "tool_call", "tool_name": "refund", "required": 2,
            "expires_at": "2026-01-02T03:04:05.678Z", "self_approval": false, "replaces": "apr_1",
            "votes": [{"by": "user:ann", "decision": "approve"}]});
        assert_eq!(
            entry(&approval),
            "apr_2  refund: may this call run?\n    until   2026-01-02T03:04:05.678Z\n    \
             needs   2 who agree; user:ann: approve; not of whoever started the run\n    \
             anew    apr_1 is void: what it was given for has changed"
        );
    }
}
