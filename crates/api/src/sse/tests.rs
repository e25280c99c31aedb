use super::*;

#[test]
fn frames() {
    assert_eq!(frame("run.queued", Some(1), "{}"), "id: 1\nevent: run.queued\ndata: {}\n\n");
    assert_eq!(frame("model.delta", None, "{}"), "event: model.delta\ndata: {}\n\n");
}

#[test]
fn a_slow_reader_has_few_rows_read_more_than_once() {
    // It takes so many at a time, however many there are.
    for takes in [1, 3, 8, 40, 150] {
        let (mut rows, mut read, mut taken) = (ROWS, 0, 0);
        for _ in 0..1000 {
            let fits = rows.min(takes);
            (read, taken) = (read + rows, taken + fits);
            rows = rows_next(rows, (rows > takes).then(|| usize::try_from(fits).expect("few")));
        }
        let most = if takes < FEW_ROWS { FEW_ROWS * taken / takes } else { 2 * taken };
        assert!(read <= most + ROWS, "{takes} at a time: {read} read for {taken}");
    }
    // Whoever reads on gets as many as anybody.
    let again = (0..6).fold(FEW_ROWS, |rows, _| rows_next(rows, None));
    assert_eq!((again, rows_next(ROWS, None)), (ROWS, ROWS));
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
