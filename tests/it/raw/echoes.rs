//! What a client sent and an answer's head repeats can't end a line there.

use serde_json::json;

use super::{answers, statuses};
use crate::harness::World;

/// The head of the one answer.
fn head(answer: &str) -> String {
    answer.split("\r\n\r\n").next().unwrap_or_default().to_lowercase()
}

#[tokio::test]
async fn ids_of_requests_are_repeated_only_if_they_are_plain() {
    let world = World::shared().await;
    let ask = |id: &str| {
        format!("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: {id}\r\n\r\n")
    };
    let answer = answers(&world.server, ask("order-77.a")).await;
    assert!(head(&answer).contains("x-request-id: order-77.a"), "{answer}");
    for id in ["a%0d%0ax-evil: 1", "a\tb", "a b", "a\u{85}x-evil: 1", "a\u{2028}b", &"a".repeat(129)] {
        let answer = answers(&world.server, ask(id)).await;
        assert!(
            head(&answer).contains("x-request-id: req_") && !head(&answer).contains("x-evil"),
            "{answer}"
        );
    }
    let answer = answers(&world.server, ask("a\rX-Evil: 1")).await;
    assert_eq!(statuses(&answer), [400], "{answer}");
}

#[tokio::test]
async fn names_and_types_of_files_end_no_line() {
    let world = World::shared().await;
    world.model.script("m", [answerable_testkit::ModelReply::text("Done.")]);
    let run = world.start(&world.agent(&[])).await;
    let ended = run.ended().await;
    let root = ended["workspace_root"].as_str().expect("a workspace");
    let workspace = root.trim_start_matches("workspace://");
    let key = world.client.key().expect("a key");
    let put = |name: &str, kind: &str| {
        format!(
            "PUT /v1/workspaces/{workspace}/files/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: {kind}\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"
        )
    };
    for (name, kind) in
        [("a%0d%0aX-Evil:%201", "text/plain"), ("a.txt", "text/html;\tx-evil=\"1\""), ("b", "a\u{e9}b")]
    {
        let answer = answers(&world.server, put(name, kind)).await;
        assert!(matches!(statuses(&answer)[..], [200 | 201 | 422]), "{name} {answer}");
        assert!(!head(&answer).contains("\r\nx-evil"), "{answer}");
        let get = put(name, kind).replacen("PUT", "GET", 1);
        let answer = answers(&world.server, get).await;
        assert!(!head(&answer).contains("\r\nx-evil"), "{answer}");
        if statuses(&answer) == [200] {
            assert!(head(&answer).contains("content-disposition: attachment"), "{answer}");
        }
    }
    let keyed = json!({"metadata": {"a\r\nX-Evil: 1": "b"}});
    let answer = world.client.post("/v1/threads", &keyed).await;
    assert!(answer.header("x-evil").is_none(), "{answer}");
}
