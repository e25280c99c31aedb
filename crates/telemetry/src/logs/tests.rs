use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;

use super::json::FlatJson;
use super::one_line::one_line;

/// What was written.
#[derive(Debug, Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Page {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The lines that are logged meanwhile.
fn lines(log: impl FnOnce()) -> Vec<String> {
    let page = Page::default();
    let subscriber =
        fmt().fmt_fields(JsonFields::new()).event_format(FlatJson).with_writer(page.clone()).finish();
    tracing::subscriber::with_default(subscriber, log);
    let bytes = page.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn a_line_has_its_fields_and_those_of_its_spans_side_by_side() {
    let lines = lines(|| {
        let run = tracing::error_span!("run", run_id = "run_1", trace_id = tracing::field::Empty);
        let _in_run = run.enter();
        tracing::info!("before it is known");
        run.record("trace_id", "abc");
        let inner = tracing::error_span!("call", tool = "pay", run_id = "run_2");
        let _in_call = inner.enter();
        tracing::warn!(attempt = 3, good = false, why = %"it \"broke\"\nhere", "a call failed");
    });
    let [first, second] = &lines[..] else { panic!("{lines:?}") };
    assert!(first.starts_with(r#"{"timestamp":"2"#), "{first}");
    let first = parsed(first);
    assert_eq!((&first["message"], &first["run_id"]), (&json!("before it is known"), &json!("run_1")));
    assert_eq!(first.get("trace_id"), None);
    let mut second = parsed(second);
    let target = second.as_object_mut().and_then(|fields| fields.remove("target"));
    assert!(target.is_some_and(|target| target.as_str().is_some_and(|target| target.contains("logs"))));
    second["timestamp"].take();
    let wanted = json!({"timestamp": null, "level": "WARN", "message": "a call failed", "run_id": "run_2",
        "trace_id": "abc", "tool": "pay", "attempt": 3, "good": false, "why": "it \"broke\"\nhere"});
    assert_eq!(second, wanted);
}

#[test]
fn a_line_outside_of_any_span_is_whole() {
    let lines = lines(|| tracing::error!(number = u64::MAX, "alone"));
    assert_eq!(lines.len(), 1);
    let line = parsed(&lines[0]);
    assert_eq!((&line["level"], &line["number"]), (&json!("ERROR"), &json!(u64::MAX)));
}

#[test]
fn a_line_for_people_is_one_line_whatever_it_tells() {
    let page = Page::default();
    let subscriber = fmt().fmt_fields(one_line()).with_ansi(false).with_writer(page.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let run = tracing::error_span!("run", run_id = %"run_1\nforged", trace_id = tracing::field::Empty);
        let _in_run = run.enter();
        run.record("trace_id", "abc");
        let why = "a\r\nb\u{1b}[31m\u{2028}c\u{85}\u{202e}d é\n";
        tracing::warn!(attempt = 3, %why, said = why, r#type = ?["x"], "it {}", "broke\nhere");
    });
    let bytes = page.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = String::from_utf8(bytes).expect("text");
    let (line, rest) = text.split_once('\n').expect("a line");
    assert_eq!(rest, "");
    let told = r#"it broke\nhere attempt=3 why=a\r\nb\u{1b}[31m\u{2028}c\u{85}\u{202e}d é\n"#;
    assert!(line.contains(r"run{run_id=run_1\nforged trace_id=") && line.contains(told), "{line}");
    assert!(line.ends_with(r#"type=["x"]"#), "{line}");
}
