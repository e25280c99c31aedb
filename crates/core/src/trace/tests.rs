//! What is the same for all spans; which there are is told by the laws of the run's own tests.

use super::*;

fn at_once(kind: SpanKind) -> Span {
    let (began, ended, id) = (1_000, 1_000, SpanId::of(&[kind.name()]));
    let (attributes, links) = (serde_json::Map::new(), Vec::new());
    Span { kind, id, parent: None, began, ended, error: None, attributes, links }
}

#[test]
fn within_a_millisecond_spans_stand_in_the_order_of_the_work() {
    use SpanKind::{Agent, Checkpoint, Context, Model, Permission, Tool};
    let order = [Agent, Checkpoint, Context, Model, Permission, Tool].map(at_once);
    assert!(order.is_sorted_by_key(Span::began_nanos));
    let run = &order[0];
    for span in &order {
        assert!(
            run.began_nanos() <= span.began_nanos() && span.ended_nanos() <= run.ended_nanos(),
            "{span:?}"
        );
        assert!(span.began_nanos() <= span.ended_nanos() && span.ended_nanos() / 1_000_000 == 1_000);
    }
}

#[test]
fn ids_are_whole_and_differ_with_what_they_are_of() {
    let id = SpanId::of(&["a", "b"]);
    assert_eq!(SpanId::parse(id.as_str()), Some(id.clone()));
    assert_ne!(id, SpanId::of(&["a", "c"]));
    for bad in ["", "0000000000000000", "00000000000000001", "000000000000000G", "ABCDEF0000000001"] {
        assert_eq!(SpanId::parse(bad), None, "{bad}");
    }
}
