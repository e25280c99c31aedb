//! docs/approvals.md, and what its programs must stand that it doesn't show.

use serde_json::json;

use super::follow;
use crate::harness::Fits;

const PAGE: &str = "approvals.md";
const PORTS: [&str; 1] = ["9000"];

#[tokio::test]
async fn an_admin_page() {
    follow::follow(PAGE, "An admin page", PORTS).await;
}

#[tokio::test]
async fn a_chat_bot() {
    follow::follow(PAGE, "A chat bot", PORTS).await;
}

#[tokio::test]
async fn a_queue_worker() {
    follow::follow(PAGE, "A queue worker", PORTS).await;
}

#[tokio::test]
async fn an_admin_page_that_others_frame_and_flood() {
    let script = include_str!("approvals/admin.sh");
    let told = follow::beyond(PAGE, "An admin page", PORTS, script).await;
    told.fits(&json!({
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'; form-action 'self'",
        "cache-control": "no-store", "content-type": "~text/html", "statuses": [200, 413, 413, 200],
    }));
}

#[tokio::test]
async fn a_chat_bot_that_is_told_what_it_does_not_know() {
    let script = include_str!("approvals/bot.sh");
    let told = follow::beyond(PAGE, "A chat bot", PORTS, script).await;
    told.fits(&json!({
        "statuses": [200, 200, 200, 200, 401, 401],
        "cards": [
            {"card": "apr_1", "text": "~look at apr_1 in the inbox", "buttons": []},
            {"card": "apr_2", "text": "~Dear Bob", "buttons": ["deny"]},
        ],
        "pressed": {"error": "this card has no such button"},
    }));
}

#[tokio::test]
async fn a_queue_worker_that_lives_through_what_fails() {
    let script = include_str!("approvals/worker.sh");
    let told = follow::beyond(PAGE, "A queue worker", PORTS, script).await;
    told.fits(&json!({
        "statuses": [204, 204, 204, 401],
        "letters": ["approved", "approved"],
        "others": {
            "not JSON": "left to people", "no approval": "left to people", "no input": "left to people",
            "nobody's": "not_found", "refused with all others": null,
        },
    }));
}
