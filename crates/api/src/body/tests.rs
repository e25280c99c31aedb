use super::*;

#[test]
fn content_types() {
    let is = |value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(value));
        is_json(&headers)
    };
    assert!(
        is("application/json") && is("Application/JSON; charset=\"UTF-8\"") && is("application/json;x=1")
    );
    assert!(!is("text/plain") && !is("application/json; charset=latin1") && !is("application/jsonx"));
    assert!(!is_json(&HeaderMap::new()));
}

#[test]
fn a_body_that_says_that_it_is_too_large_need_not_come() {
    let hopeless = |length: &'static str, expects: bool| {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, http::HeaderValue::from_static(length));
        if expects {
            headers.insert(header::EXPECT, http::HeaderValue::from_static("100-continue"));
        }
        is_hopeless(&headers, 1000)
    };
    assert!(!hopeless("1000", true) && hopeless("1001", true));
    assert!(!hopeless("4000", false) && hopeless("4001", false));
    assert!(hopeless("99999999999", false) && !hopeless("nonsense", true));
    assert!(!is_hopeless(&HeaderMap::new(), 1000));
}

#[test]
fn a_body_has_time_by_its_length() {
    let times = [0, 64 * 1024, 4 << 20, 1 << 30].map(|length| PACE.time_for(length).as_secs());
    assert_eq!(times, [10, 11, 60, 60]);
}

#[tokio::test]
async fn drops_of_a_body_are_not_waited_for_and_a_slow_one_is() {
    let pace = Pace { most: Duration::from_secs(20), behind: Duration::from_millis(300), per_second: 1000 };
    for (piece, is_enough) in [(1, false), (2000, true)] {
        let pieces = futures::stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (sent < 20).then(|| (Ok::<_, std::io::Error>(vec![0; piece]), sent + 1))
        });
        let (began, request) = (Instant::now(), Request::new(axum::body::Body::from_stream(pieces)));
        let got = collect_at(pace, request, 1 << 20).await;
        assert_eq!(got.is_ok(), is_enough, "{piece} bytes every 50 ms");
        assert!(began.elapsed() < pace.most);
    }
}

#[test]
fn message_content_is_mended_where_it_stands() {
    let mut value = json::parse(r#"{"input": [{"content": "a\u0000"}], "name": "b\ud800"}"#).expect("JSON");
    clean_at(&mut value, &["input", "*", "content"]);
    assert_eq!(value["input"][0]["content"], "a\u{fffd}");
    assert_eq!(json::find_unfit(&value).as_deref(), Some("/name"));
}
