//! Lines for machines: one flat JSON object each, with what is known of the run that it is about beside its own fields.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields as _, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// `{"timestamp", "level", fields of the spans around it, its own fields, "target"}`.
pub(super) struct FlatJson;

impl<S> FormatEvent<S, JsonFields> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Map::new();
        // From the outermost in, so that what is nearest to the line has the last word.
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(known) = span.extensions().get::<FormattedFields<JsonFields>>() {
                fields.extend(object(known)?);
            }
        }
        let mut own = String::new();
        context.format_fields(Writer::new(&mut own), event)?;
        fields.extend(object(&own)?);
        write!(writer, r#"{{"timestamp":""#)?;
        SystemTime.format_time(&mut writer)?;
        write!(writer, r#"","level":"{}""#, event.metadata().level())?;
        fields.insert("target".into(), event.metadata().target().into());
        for (name, value) in fields {
            write!(writer, ",{}:{value}", Value::String(name))?;
        }
        writeln!(writer, "}}")
    }
}

/// Fields as the subscriber keeps them; a span without any has an empty text.
fn object(text: &str) -> Result<Map<String, Value>, fmt::Error> {
    if text.is_empty() { Ok(Map::new()) } else { serde_json::from_str(text).map_err(|_| fmt::Error) }
}
