use super::*;

#[test]
fn frames() {
    assert_eq!(frame("run.queued", Some(1), "{}"), "id: 1\nevent: run.queued\ndata: {}\n\n");
    assert_eq!(frame("model.delta", None, "{}"), "event: model.delta\ndata: {}\n\n");
}

#[test]
fn places_that_can_not_be_are_refused() {
    let id = |text: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert("last-event-id", HeaderValue::from_static(text));
        last_event_id(&headers).ok()
    };
    assert_eq!((id("7"), id("0")), (Some(Some(7)), Some(Some(0))));
    for odd in ["nonsense", "-1", "+1", "", "1.5", "99999999999999999"] {
        assert_eq!(id(odd), None, "{odd}");
    }
    assert_eq!(last_event_id(&HeaderMap::new()).ok(), Some(None));
}
