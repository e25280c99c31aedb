//! The small page behind a decision link: plain HTML that works without scripts, and that no other page may frame.

mod html;

use answerable_store::ApprovalRecord;
use axum::response::Response;
use serde_json::Value;

use crate::problem::{self, Problem};
use crate::shapes::approvals::Approval;
use html::{Facts, escape, sealed};

const HTML: &str = "text/html; charset=utf-8";
/// Bytes of an input that the page shows. What can't be read here as a whole can't be approved here.
const MAX_SHOWN: usize = 256 * 1024;
/// Characters of a tool's version that people compare.
const SHORT_HASH: usize = 19;

/// Shows what is asked, with a form that decides; or what was decided.
pub(crate) fn ask(approval: &ApprovalRecord) -> Response {
    let question = question(approval);
    let input = Input::of(approval.input.as_ref());
    let mut body = format!("<h1>{}</h1>{}{}", escape(&question), facts(approval), input.html);
    if let Some(edited) = &approval.edited_input {
        body.push_str("<p>A person put these arguments in their place:</p>");
        body.push_str(&Input::of(Some(edited)).html);
    }
    body.push_str(&choice(approval, &input));
    sealed(problem::page(HTML, html::page(&question, &body)))
}

/// Tells what became of it.
pub(crate) fn thank(approval: &Approval) -> Response {
    let words = format!("It is {}. You can close this page.", approval.status());
    let body = format!("<h1>Thank you</h1><p>{}</p>", escape(&words));
    sealed(problem::page(HTML, html::page("Thank you", &body)))
}

/// Tells people why a link doesn't work, or why nothing was decided.
pub(crate) fn refuse(problem: Problem) -> Response {
    let title = "Nothing was decided";
    let body = format!("<h1>{title}</h1><p>{}</p>", escape(&problem.said()));
    sealed(problem::problem_page(problem, HTML, html::page(title, &body)))
}

fn question(approval: &ApprovalRecord) -> String {
    let tool = approval.tool_name.as_deref().unwrap_or("a tool");
    match approval.kind.as_str() {
        "uncertain_effect" => format!("Did this call of {tool} happen?"),
        "budget" => "May this run spend more?".into(),
        _ => format!("May this call of {tool} run?"),
    }
}

/// What a decision is bound to, and who has a say.
fn facts(approval: &ApprovalRecord) -> String {
    let mut facts = Facts::default();
    facts.add("Why it is asked", &approval.reason);
    facts.add_some("Risk", approval.risk.as_deref());
    facts.add("Open until", &moment(approval.expires_at));
    facts.add("Decisions", &decisions(approval));
    facts.add("Run", &answerable_core::id::RunId(approval.run_id).to_string());
    facts.add_some("Hash of the arguments", approval.input_hash.as_deref());
    let version = approval.tool_version.as_deref();
    facts.add_some("Tool's version", version.map(|hash| answerable_core::text::head(hash, SHORT_HASH)));
    if approval.replaces.is_some() {
        facts.add("Asked anew", "what was approved before changed before it could run");
    }
    facts.html()
}

/// Who voted for what, and how many it takes.
fn decisions(approval: &ApprovalRecord) -> String {
    let votes = approval.votes.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |vote: &Value, name: &str| vote.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
    let told = |vote: &Value| format!("{} by {}", text(vote, "decision"), text(vote, "by"));
    let told: Vec<String> = votes.iter().map(told).collect();
    let so_far = if told.is_empty() { "none so far".to_owned() } else { told.join(", ") };
    match approval.required {
        1 => so_far,
        required => format!("{so_far}; it takes {required} people who agree"),
    }
}

fn moment(at: chrono::DateTime<chrono::Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A call's arguments as people read them.
struct Input {
    html: String,
    is_whole: bool,
}

impl Input {
    fn of(input: Option<&Value>) -> Self {
        let text = input.and_then(|input| serde_json::to_string_pretty(input).ok()).unwrap_or_default();
        let shown = answerable_core::text::head(&text, MAX_SHOWN);
        let is_whole = shown.len() == text.len();
        let rest = if is_whole { "" } else { "\n[cut]" };
        let html =
            if text.is_empty() { String::new() } else { format!("<pre>{}{rest}</pre>", escape(shown)) };
        Self { html, is_whole }
    }
}

/// The form, or what was decided.
fn choice(approval: &ApprovalRecord, input: &Input) -> String {
    if approval.status != "pending" {
        return decided(approval);
    }
    let (yes, no) = match approval.kind.as_str() {
        "uncertain_effect" => ("It happened", "It did not happen"),
        "budget" => ("", "End the run"),
        _ => ("Approve", "Deny"),
    };
    let why_not = if approval.kind == "budget" {
        Some("New limits are set through the API. Here you can only refuse them.")
    } else if !approval.self_approval {
        Some(
            "Whoever started the run may not decide this, and a link doesn't say who you are: to approve, sign in where \
             approvals are decided. Here you can only deny.",
        )
    } else if approval.required > 1 {
        Some(
            "Several people must agree, and a link doesn't say who you are: to approve, sign in where approvals are decided. \
             Here you can only deny.",
        )
    } else if !input.is_whole {
        Some(
            "The arguments are too long to be shown here. To approve, read them where approvals are decided. Here you can \
             only deny.",
        )
    } else {
        None
    };
    match why_not {
        Some(why) => {
            format!("<p>{}</p>{}", escape(why), html::form(approval.input_hash.as_deref(), None, no))
        }
        None => html::form(approval.input_hash.as_deref(), Some(yes), no),
    }
}

fn decided(approval: &ApprovalRecord) -> String {
    let word = match approval.decision.as_deref() {
        Some("answer") => "answered by a person",
        _ => approval.status.as_str(),
    };
    let by = approval.decided_by.as_deref().unwrap_or("nobody");
    let at = approval.decided_at.map(|at| format!(", {}", moment(at))).unwrap_or_default();
    let used = approval.used_at.map(|at| format!(" The call began {}.", moment(at))).unwrap_or_default();
    format!("<p>{}</p>", escape(&format!("It was {word} by {by}{at}.{used}")))
}

#[cfg(test)]
mod tests;
