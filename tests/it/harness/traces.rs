//! What holds for the trace of every run that has ended: one tree, whole, each thing told once.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::run::Run;

/// A span as `GET …/trace` shows it, with its attributes by name.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) trace_id: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) error: Option<String>,
    pub(crate) attributes: BTreeMap<String, Value>,
    pub(crate) links: Vec<Value>,
}

impl Span {
    /// An attribute; null if it has none of that name.
    pub(crate) fn get(&self, name: &str) -> &Value {
        self.attributes.get(name).unwrap_or(&Value::Null)
    }
}

/// The spans of a run as they are now.
pub(crate) async fn of(run: &Run<'_>) -> Vec<Span> {
    let trace = run.client().get(&run.path("/trace")).await.ok();
    read(&trace)
}

/// The spans of OTLP's JSON.
pub(crate) fn read(trace: &Value) -> Vec<Span> {
    let spans = list(&trace["resourceSpans"]).iter().flat_map(|resource| list(&resource["scopeSpans"]));
    spans.flat_map(|scope| list(&scope["spans"])).map(span).collect()
}

fn span(span: &Value) -> Span {
    let text = |name: &str| span[name].as_str().map(str::to_owned);
    let time = |name: &str| text(name).and_then(|nanos| nanos.parse().ok()).expect("nanoseconds");
    let attribute = |attribute: &Value| {
        let value = attribute["value"].as_object().and_then(|value| value.iter().next());
        let value = match value {
            Some((kind, Value::String(digits))) if kind == "intValue" => {
                Value::from(digits.parse::<i64>().expect("an integer"))
            }
            Some((_, value)) => value.clone(),
            None => Value::Null,
        };
        (attribute["key"].as_str().expect("a key").to_owned(), value)
    };
    Span {
        name: text("name").expect("a name"),
        trace_id: text("traceId").expect("a trace"),
        id: text("spanId").expect("an id"),
        parent: text("parentSpanId"),
        began: time("startTimeUnixNano"),
        ended: time("endTimeUnixNano"),
        error: (span["status"]["code"] == 2).then(|| text_of(&span["status"]["message"])),
        attributes: list(&span["attributes"]).iter().map(attribute).collect(),
        links: list(&span["links"]).to_vec(),
    }
}

/// Checks the trace of a run that has ended.
pub(crate) async fn hold(run: &Run<'_>, shown: &Value, calls: &Value, ledger: &Value) {
    let spans = of(run).await;
    let root = one_tree(&spans, shown);
    assert_eq!(
        (root.get("answerable.status"), root.get("answerable.stop_reason")),
        (&shown["status"], &shown["stop_reason"])
    );
    assert_eq!(root.error.is_some(), shown["status"] == "failed", "{root:?}");
    let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
    let saved = run.list("events").await;
    let saved = list(&saved).iter().filter(|event| event["type"] == "checkpoint.saved").count();
    assert_eq!(count("checkpoint.save"), saved);
    // What a run that this one stands on did is in that one's trace.
    let own = |entry: &&Value| entry["run_id"] == shown["id"];
    for entry in list(ledger).iter().filter(own) {
        let of_entry = |span: &&Span| span.get("answerable.ledger_id") == &entry["id"];
        let attempts: Vec<&Span> = spans.iter().filter(of_entry).collect();
        assert_eq!(
            attempts.len() as u64,
            entry["attempts"].as_u64().expect("a number"),
            "{entry:#}\n{spans:#?}"
        );
        for attempt in attempts {
            assert_eq!(attempt.get("gen_ai.tool.name"), &entry["tool_name"]);
            assert_eq!(attempt.get("answerable.tool.input_hash"), &entry["input_hash"], "{attempt:?}");
        }
    }
    every_decision_is_told(&spans, calls);
}

fn one_tree<'s>(spans: &'s [Span], run: &Value) -> &'s Span {
    let ids: HashSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "two spans have one id: {spans:#?}");
    let roots: Vec<&Span> = spans.iter().filter(|span| span.name == "agent.run").collect();
    let [root] = roots.as_slice() else { panic!("{} spans of the run in {spans:#?}", roots.len()) };
    for span in spans {
        assert_eq!(span.trace_id, text_of(&run["trace_id"]));
        assert!(span.began <= span.ended, "{span:?}");
        assert!(span.began >= root.began && span.ended <= root.ended, "{span:?} is outside of {root:?}");
        assert!(span.name == "agent.run" || span.parent.as_ref() == Some(&root.id), "{span:?}");
        assert_eq!(span.error.is_some(), span.attributes.contains_key("error.type"), "{span:?}");
    }
    root
}

/// Whoever let a call happen, or not, is told of.
fn every_decision_is_told(spans: &[Span], calls: &Value) {
    let known: HashSet<&str> =
        spans.iter().filter_map(|span| span.get("answerable.tool_call_id").as_str()).collect();
    for call in list(calls).iter().filter(|call| call["decision"].is_object()) {
        // Calls that the run brought along are told of in the trace of the run that made them.
        let id = call["id"].as_str().expect("an id");
        let here = spans.iter().any(|span| span.get("gen_ai.tool.call.id") == id);
        assert!(known.contains(id) || !here, "no decision on {call:#} in {spans:#?}");
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
