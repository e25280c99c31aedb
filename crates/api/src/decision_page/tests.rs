use answerable_store::ApprovalRecord;
use axum::body::to_bytes;
use axum::response::Response;
use chrono::DateTime;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

fn approval(input: Value) -> ApprovalRecord {
    ApprovalRecord {
        approval_id: Uuid::nil(),
        ord: 1,
        run_id: Uuid::nil(),
        agent_id: None,
        thread_id: None,
        call_id: Some(Uuid::nil()),
        step: 1,
        kind: "tool_call".into(),
        tool_name: Some("pay".into()),
        input: Some(input),
        edited_input: None,
        input_hash: Some("sha256:ab".into()),
        tool_version: Some(format!("sha256:{}", "c".repeat(64))),
        risk: Some("high".into()),
        reason: "over the limit".into(),
        status: "pending".into(),
        required: 1,
        self_approval: true,
        votes: json!([]),
        decision: None,
        expires_at: DateTime::UNIX_EPOCH,
        created_at: DateTime::UNIX_EPOCH,
        decided_at: None,
        decided_by: None,
        used_at: None,
        voided_at: None,
        void_reason: None,
        replaces: None,
    }
}

async fn html(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.expect("a page");
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn offers(page: &str, word: &str) -> bool {
    page.contains(&format!("name=\"decision\" value=\"{word}\""))
}

#[tokio::test]
async fn a_page_shows_what_a_decision_is_bound_to() {
    let mut asked = approval(json!({"amount": 5}));
    asked.required = 2;
    asked.votes = json!([{"decision": "approve", "by": "user:ann", "at": "", "of": ""}]);
    asked.replaces = Some(Uuid::nil());
    let page = html(ask(&asked)).await;
    for shown in [
        "May this call of pay run?",
        "over the limit",
        "&quot;amount&quot;: 5",
        "<dd>sha256:ab</dd>",
        "<dd>sha256:cccccccccccc</dd>",
        "approve by user:ann; it takes 2 people who agree",
        "1970-01-01 00:00:00 UTC",
        "Asked anew",
        "name=\"input_hash\" value=\"sha256:ab\"",
        "name=\"reason\"",
    ] {
        assert!(page.contains(shown), "{shown} is missing: {page}");
    }
    assert!(page.contains("Several people must agree") && !offers(&page, "approve") && offers(&page, "deny"));
    asked.required = 1;
    let page = html(ask(&asked)).await;
    assert!(offers(&page, "approve") && offers(&page, "deny"));
}

#[tokio::test]
async fn what_a_model_wrote_is_text_and_hides_nothing() {
    let input = json!({"to": "<b onx='1'>&", "memo": "gnp.exe\u{202e}\u{200b}\u{e0041}\u{7f}\nnext"});
    let mut asked = approval(input);
    asked.reason = "</dd><script>".into();
    asked.tool_name = Some("a\u{202e}b".into());
    let page = html(ask(&asked)).await;
    assert!(page.contains("&lt;b onx=&#39;1&#39;&gt;&amp;"), "{page}");
    assert!(page.contains("gnp.exe\\u202e\\u200b\\udb40\\udc41\\u007f\\nnext"), "{page}");
    assert!(page.contains("a\\u202eb") && !page.contains("<script>") && !page.contains('\u{202e}'), "{page}");
}

#[tokio::test]
async fn what_can_not_be_approved_here_can_be_denied() {
    let mut own = approval(json!({}));
    own.self_approval = false;
    let mut budget = approval(json!(null));
    (budget.kind, budget.input, budget.tool_name) = ("budget".into(), None, None);
    let long = approval(json!({"text": "x".repeat(MAX_SHOWN)}));
    for (asked, why) in
        [(own, "doesn&#39;t say who you are"), (budget, "through the API"), (long, "too long")]
    {
        let page = html(ask(&asked)).await;
        assert!(page.contains(why) && offers(&page, "deny") && !offers(&page, "approve"), "{why}");
    }
}

#[tokio::test]
async fn a_page_tells_what_was_decided_and_offers_nothing() {
    let mut asked = approval(json!({"amount": 5}));
    (asked.status, asked.decision) = ("approved".into(), Some("approve".into()));
    (asked.decided_by, asked.decided_at) = (Some("user:ann".into()), Some(DateTime::UNIX_EPOCH));
    (asked.used_at, asked.edited_input) = (Some(DateTime::UNIX_EPOCH), Some(json!({"amount": 4})));
    let page = html(ask(&asked)).await;
    assert!(
        page.contains("It was approved by user:ann, 1970-01-01 00:00:00 UTC. The call began 1970"),
        "{page}"
    );
    assert!(page.contains("&quot;amount&quot;: 4") && !page.contains("<form"), "{page}");
}

#[tokio::test]
async fn a_page_is_kept_to_itself() {
    let response = refuse(Problem::expired("This link has expired."));
    let header =
        |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    assert_eq!(header("content-type").as_deref(), Some(HTML));
    assert_eq!(header("cache-control").as_deref(), Some("no-store"));
    assert_eq!(header("referrer-policy").as_deref(), Some("no-referrer"));
    let policy = header("content-security-policy").unwrap_or_default();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(html(response).await.contains("This link has expired."));
}
