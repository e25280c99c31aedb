//! Where a run's trace hangs, and W3C's trace context, in which callers say so and tools are told.

use super::span::{SpanId, SpanLink};

/// A run's trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// 32 hex digits.
    pub trace_id: String,
    /// The caller's span, which the run is part of.
    pub parent: Option<SpanId>,
    /// The caller's span, which the run only has to do with.
    pub link: Option<SpanLink>,
}

impl TraceContext {
    /// A trace of its own, that of id `own`, unless the tenant is `trusted` with placing its runs in its callers' traces:
    /// whoever may do that also decides what stands together.
    pub fn of(own: String, caller: Option<SpanLink>, trusted: bool) -> Self {
        match caller {
            Some(caller) if trusted => {
                Self { trace_id: caller.trace_id, parent: Some(caller.span_id), link: None }
            }
            link => Self { trace_id: own, parent: None, link },
        }
    }
}

impl SpanLink {
    /// The span that a `traceparent` header names. `None`: it names none that is legal (W3C Trace Context, 3.2).
    pub fn from_traceparent(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace_id, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        // What follows is for later versions to say.
        let whole = version != "00" || parts.next().is_none();
        let legal =
            is_hex(version, 2) && version != "ff" && is_hex(trace_id, 32) && is_hex(flags, 2) && whole;
        let some = trace_id.bytes().any(|b| b != b'0');
        (legal && some).then_some(())?;
        Some(Self { trace_id: trace_id.to_owned(), span_id: SpanId::parse(span)? })
    }

    /// The `traceparent` that names it.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace_id, self.span_id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_span_is_read_and_nothing_else() {
        let (trace, span) = ("1".repeat(32), "2".repeat(16));
        let good = format!("00-{trace}-{span}-01");
        let read = SpanLink::from_traceparent(&good).expect("legal");
        assert_eq!((read.trace_id.as_str(), read.span_id.as_str()), (trace.as_str(), span.as_str()));
        assert_eq!(read.traceparent(), good);
        assert!(SpanLink::from_traceparent(&format!("cc-{trace}-{span}-00-later")).is_some());
        let zeros = ("0".repeat(32), "0".repeat(16));
        for bad in [
            "hello".to_owned(),
            String::new(),
            format!("00-{}-{span}-01", zeros.0),
            format!("00-{trace}-{}-01", zeros.1),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{trace}-{span}"),
            format!("00-{}-{span}-01", "A".repeat(32)),
            format!("00-{trace}-{span}-0x"),
            format!("00-{trace}é-{span}-01"),
        ] {
            assert_eq!(SpanLink::from_traceparent(&bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_trusted_place_their_runs() {
        let caller =
            SpanLink { trace_id: "1".repeat(32), span_id: SpanId::parse(&"2".repeat(16)).expect("an id") };
        let own = || "3".repeat(32);
        let below = TraceContext::of(own(), Some(caller.clone()), true);
        assert_eq!(
            (below.trace_id, below.parent, below.link),
            ("1".repeat(32), Some(caller.span_id.clone()), None)
        );
        let beside = TraceContext::of(own(), Some(caller.clone()), false);
        assert_eq!((beside.trace_id, beside.parent, beside.link), (own(), None, Some(caller)));
        assert_eq!(TraceContext::of(own(), None, true).trace_id, own());
    }
}
