//! Targets of requests: paths that try to be others, and forms of targets that proxies are sent.

use super::{answers, bait, statuses};
use crate::harness::World;

fn get(target: &str, host: &str, key: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    )
}

#[tokio::test]
async fn a_path_is_read_as_it_stands() {
    let world = World::shared().await;
    let key = world.client.key().expect("a key");
    let targets = [
        "/v1/../metrics",
        "/v1/..%2fmetrics",
        "/v1/%2e%2e/metrics",
        "/v1/./threads",
        "//v1/threads",
        "/v1//threads",
        "/v1/threads/",
        "/v1/threads;a=b",
        "/V1/threads",
        "/v1/runs/%00",
        "/v1/runs/%0d%0aX-Evil:%201",
        "/v1/runs/..%2f..%2fhealthz",
        "/v1/runs/%2e%2e%2f%2e%2e%2fhealthz",
        "/v1/runs/%ff",
        "/v1/runs/%",
        "/v1/runs/%zz",
        "/v1\\threads",
    ];
    for target in targets {
        let answer = answers(&world.server, get(target, "x", key)).await;
        assert_eq!(statuses(&answer), [404], "{target} {answer}");
        assert!(!answer.to_lowercase().contains("x-evil"), "{target} {answer}");
    }
    for target in
        ["/v1/threads?a%00b", "/v1/threads?limit=%0d%0aX-Evil:%201", "/v1/threads?cursor=..%2f..%2f"]
    {
        let answer = answers(&world.server, get(target, "x", key)).await;
        assert_eq!(statuses(&answer), [422], "{target} {answer}");
        assert!(!answer.to_lowercase().contains("\r\nx-evil"), "{target} {answer}");
    }
    for target in
        ["/v1/threads\0", "/v1/threads?a b", "/v1/thr\u{e9}ads", "/v1/threads#part", "/v1/\x01", "v1/threads"]
    {
        let answer = answers(&world.server, get(target, "x", key)).await;
        assert_eq!(statuses(&answer), [400], "{target:?} {answer}");
    }
}

#[tokio::test]
async fn whole_urls_name_the_host_that_is_asked() {
    let world = World::shared().await;
    let key = world.client.key().expect("a key");
    let fine = answers(&world.server, get("http://desk.example:80/v1/threads", "desk.example:80", key)).await;
    assert_eq!(statuses(&fine), [200], "{fine}");
    for (target, host) in [
        ("http://other.example/v1/threads", "desk.example"),
        ("http://a@desk.example/v1/threads", "desk.example"),
        ("http:///v1/threads", ""),
        ("ftp://desk.example/v1/threads", "desk.example"),
        ("desk.example:443", "desk.example:443"),
        ("*", "desk.example"),
    ] {
        let answer = answers(&world.server, get(target, host, key)).await;
        assert_eq!(statuses(&answer), [400], "{target} {answer}");
    }
}

#[tokio::test]
async fn methods_that_are_for_proxies_or_debugging_do_nothing() {
    let world = World::shared().await;
    let (path, _) = bait(&world).await;
    let key = world.client.key().expect("a key");
    for (method, target, status) in [
        ("CONNECT", "desk.example:443", 400),
        ("CONNECT", "/v1/threads", 405),
        ("TRACE", "/v1/threads", 405),
        ("OPTIONS", "*", 400),
        ("OPTIONS", "/v1/threads", 405),
        ("PROPFIND", "/v1/threads", 405),
        ("get", "/v1/threads", 405),
        ("GET\0", "/v1/threads", 400),
    ] {
        let bytes = get(target, "desk.example:443", key).replacen("GET", method, 1);
        let answer = answers(&world.server, bytes).await;
        assert_eq!(statuses(&answer), [status], "{method} {target} {answer}");
        assert!(!answer.contains(key), "{method} says what it was sent: {answer}");
    }
    // Nobody's header makes another method of it.
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let bytes = get(&path, "x", key).replacen("\r\n\r\n", &format!("\r\n{name}: DELETE\r\n\r\n"), 1);
        assert_eq!(statuses(&answers(&world.server, bytes).await), [200]);
    }
    world.client.get(&path).await.ok();
}
