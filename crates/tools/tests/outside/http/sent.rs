//! What is sent: the input in its place, the headers, and nothing where they can't be made.

use answerable_core::id::{CallId, RunId};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_testkit::signature::verify;
use serde_json::json;
use uuid::Uuid;

use super::world::{OLDER, SIGNING, World, output};

#[tokio::test]
async fn headers_tell_what_is_called_by_whom() {
    let world = World::start().await;
    let headers = json!({"authorization": "Bearer {{secret.shop}}", "x-user": "{{context.user}}", "x-order": "o-{{input.id}}"});
    let call = world.call(json!({}), json!({"headers": headers}), json!({"id": 7}));
    output(world.run(&call).await.0);
    let request = &world.far.requests("look")[0];
    for (name, wanted) in [
        ("content-type", "application/json"),
        ("authorization", "Bearer canary-shop-4711"),
        ("x-user", "u-77"),
        ("x-order", "o-7"),
        ("idempotency-key", "key-1"),
        ("x-run-id", &RunId(Uuid::from_u128(1)).to_string()),
        ("x-tool-call-id", &CallId(Uuid::from_u128(2)).to_string()),
        ("webhook-id", &CallId(Uuid::from_u128(2)).to_string()),
        ("x-attempt", "2"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("content-length", "8"),
    ] {
        assert_eq!(request.header(name), Some(wanted), "{name}");
    }
    assert_eq!(verify(request, SIGNING), Ok(()));
    assert_eq!(verify(request, OLDER), Ok(()), "both secrets sign while both are valid");
}

#[tokio::test]
async fn the_input_goes_where_the_method_has_room_for_it() {
    let world = World::start().await;
    let input =
        json!({"q": "a b&c=d/é", "n": 1_234_567_890_123_456_789_u64, "ok": true, "none": null, "list": [1]});
    for method in ["GET", "DELETE", "POST", "PUT", "PATCH"] {
        let call =
            world.call(json!({}), json!({"method": method, "url": world.far.url(method)}), input.clone());
        output(world.run(&call).await.0);
        let request = &world.far.requests(method)[0];
        assert_eq!(request.method, method);
        if matches!(method, "GET" | "DELETE") {
            let mut query = request.query.clone();
            query.sort();
            let wanted = [("n", "1234567890123456789"), ("ok", "true"), ("q", "a b&c=d/é")];
            assert_eq!(query, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
            assert!(request.body.is_empty());
        } else {
            assert_eq!(request.json(), input);
            assert!(request.text().contains("1234567890123456789"));
        }
        assert_eq!(verify(request, SIGNING), Ok(()), "{method}");
    }
}

#[tokio::test]
async fn a_value_stays_in_its_place() {
    let world = World::start().await;
    let url = format!("{}/{{{{input.id}}}}", world.far.url("look"));
    let call = |id: &str| world.call(json!({}), json!({"method": "GET", "url": url}), json!({"id": id}));
    output(world.run(&call("../admin?as=root#x")).await.0);
    let request = &world.far.requests("look")[0];
    assert_eq!(request.path, "/tool/look/..%2Fadmin%3Fas%3Droot%23x");
    assert!(!request.query.iter().any(|(name, _)| name == "as"));
    for id in ["..", ".", ""] {
        assert!(
            matches!(world.run(&call(id)).await.0, Attempt::Refused(ErrorCode::InvalidArguments, _)),
            "{id:?}"
        );
    }
    assert_eq!(world.far.requests("look").len(), 1);
}

#[tokio::test]
async fn what_can_not_be_filled_in_is_not_sent() {
    let world = World::start().await;
    for (header, input, word) in [
        ("{{input.note}}", json!({"note": "hello\r\nx-evil: yes"}), "x-note"),
        ("{{input.note}}", json!({"note": "nul\0"}), "x-note"),
        ("Bearer {{secret.nowhere}}", json!({}), "secret.nowhere"),
        ("{{context.nobody}}", json!({}), "context.nobody"),
        ("{{input.note}}", json!({"note": "x".repeat(10_000)}), "x-note"),
    ] {
        let call = world.call(json!({}), json!({"headers": {"x-note": header}}), input);
        let attempt = world.run(&call).await.0;
        let Attempt::Refused(ErrorCode::InvalidArguments, message) = attempt else { panic!("{attempt:?}") };
        assert!(
            message.contains(word) && !message.contains("evil") && !message.contains("canary"),
            "{message}"
        );
    }
    let mut unsigned = world.call(json!({}), json!({}), json!({}));
    unsigned.signing_secrets.clear();
    assert!(matches!(world.run(&unsigned).await.0, Attempt::Refused(ErrorCode::Internal, _)));
    assert!(world.far.requests("look").is_empty());
}

#[tokio::test]
async fn query_and_body_are_what_the_author_says() {
    let world = World::start().await;
    let http = json!({"method": "PUT", "url": format!("{}/{{{{input.id}}}}?v=2", world.far.url("look")),
        "query": {"tag[]": "{{input.tags}}", "dry": "{{input.dry}}", "user": "{{context.user}}"},
        "body": "{{input.order}}"});
    let input = json!({"id": "a/7", "tags": ["x y", "z"], "order": {"lines": [1.5]}});
    output(world.run(&world.call(json!({}), http.clone(), input)).await.0);
    let request = &world.far.requests("look")[0];
    assert_eq!(request.path, "/tool/look/a%2F7");
    let wanted = [("v", "2"), ("tag[]", "x y"), ("tag[]", "z"), ("user", "u-77")];
    assert_eq!(request.query, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!((request.text().as_ref(), verify(request, SIGNING)), (r#"{"lines":[1.5]}"#, Ok(())));
    // Without the value there is no body, and nothing says that there were one.
    output(world.run(&world.call(json!({}), http, json!({"id": 7}))).await.0);
    let request = &world.far.requests("look")[1];
    assert!(request.body.is_empty() && request.header("content-type").is_none());
    assert_eq!(verify(request, SIGNING), Ok(()));
    // And a GET tells no more than it is to.
    let http = json!({"method": "GET", "query": {"q": "{{input.q}}"}});
    output(world.run(&world.call(json!({}), http, json!({"q": "a", "other": "b"}))).await.0);
    assert_eq!(world.far.requests("look")[2].query, [("q".to_owned(), "a".to_owned())]);
}
