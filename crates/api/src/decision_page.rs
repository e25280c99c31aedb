//! The small page behind a decision link: plain HTML that works without scripts, and that no other page may frame.

use answerable_store::ApprovalRecord;
use axum::response::Response;
use http::{HeaderValue, header};

use crate::problem;
use crate::shapes::approvals::Approval;

/// Characters of an input that the page shows.
const MAX_SHOWN: usize = 20_000;
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}\
    pre{background:#f4f4f4;padding:1rem;overflow:auto;white-space:pre-wrap;word-break:break-word}\
    button{font:inherit;padding:.5rem 1.2rem;margin-right:1rem}dt{font-weight:600}dd{margin:0 0 .6rem}";

/// Shows what is asked, with a form that decides.
pub(crate) fn ask(approval: &ApprovalRecord) -> Response {
    let tool = approval.tool_name.as_deref().unwrap_or("more budget");
    let question = match approval.kind.as_str() {
        "uncertain_effect" => format!("Did this call of {tool} happen?"),
        "budget" => "May this run spend more?".into(),
        _ => format!("May this call of {tool} run?"),
    };
    let input = approval
        .input
        .as_ref()
        .and_then(|input| serde_json::to_string_pretty(input).ok())
        .unwrap_or_default();
    let shown = answerable_core::text::head(&input, MAX_SHOWN);
    let rest = if shown.len() < input.len() { "\n[cut]" } else { "" };
    let mut body = format!("<h1>{}</h1><dl>", escape(&question));
    let mut fact =
        |name: &str, value: &str| body.push_str(&format!("<dt>{name}</dt><dd>{}</dd>", escape(value)));
    fact("Why it is asked", &approval.reason);
    if let Some(risk) = &approval.risk {
        fact("Risk", risk);
    }
    fact("Open until", &approval.expires_at.format("%Y-%m-%d %H:%M:%S UTC").to_string());
    body.push_str("</dl>");
    if !shown.is_empty() {
        body.push_str(&format!("<pre>{}{rest}</pre>", escape(shown)));
    }
    body.push_str(&choice(approval));
    page(&question, &body)
}

/// The buttons, or what was decided. The form goes to the page's own address, which holds the token.
fn choice(approval: &ApprovalRecord) -> String {
    let (yes, no) = match approval.kind.as_str() {
        _ if approval.status != "pending" => {
            return format!("<p>It is {} already.</p>", escape(&approval.status));
        }
        "budget" => return "<p>New limits are set through the API.</p>".into(),
        "uncertain_effect" => ("It happened", "It did not happen"),
        _ => ("Approve", "Deny"),
    };
    format!(
        "<form method=\"post\"><button name=\"decision\" value=\"approve\">{yes}</button>\
         <button name=\"decision\" value=\"deny\">{no}</button></form>"
    )
}

/// Tells what became of it.
pub(crate) fn thank(approval: &Approval) -> Response {
    let words = match approval.status() {
        "pending" => "Your vote is noted. More people must agree.".to_owned(),
        status => format!("It is {status}. You can close this page."),
    };
    page("Thank you", &format!("<h1>Thank you</h1><p>{}</p>", escape(&words)))
}

fn page(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"robots\" content=\"noindex\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head>\
         <body>{body}</body></html>",
        escape(title)
    );
    let mut response = problem::page("text/html; charset=utf-8", html);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_wrote_is_text_and_no_markup() {
        assert_eq!(escape("<b onx='1'>&\"</b>"), "&lt;b onx=&#39;1&#39;&gt;&amp;&quot;&lt;/b&gt;");
    }
}
