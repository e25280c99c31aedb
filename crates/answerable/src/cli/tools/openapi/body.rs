//! The body of an operation's request.

use serde_json::Value;

use super::Unmapped;
use super::operation::Place;

/// A JSON body.
pub(super) struct Body<'d> {
    /// Its schema, as it is written.
    pub(super) schema: &'d Value,
    /// The request body that it is of, for its description.
    pub(super) whole: &'d Value,
    pub(super) required: bool,
    /// Its media type, where it isn't plain JSON.
    pub(super) media_type: Option<String>,
}

/// What goes into the body; `Ok(None)`: there is none, or it may be left out and can't be said.
pub(super) fn read<'d>(place: &Place<'d>, notes: &mut Vec<String>) -> Result<Option<Body<'d>>, Unmapped> {
    let Some(whole) = place.operation().get("requestBody") else { return Ok(None) };
    let whole = place.document.resolve(whole)?;
    let required = whole.get("required") == Some(&Value::Bool(true));
    let mut unmapped = |why: String| {
        if required {
            return Err(Unmapped(why));
        }
        notes.push(format!("can't say the body: {why}"));
        Ok(None)
    };
    if matches!(place.method, "get" | "delete") {
        return unmapped(format!("a {} is sent without a body", place.method.to_uppercase()));
    }
    let Some(content) = whole.get("content").and_then(Value::as_object) else { return Ok(None) };
    let plain = |kind: &str| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let found = content
        .iter()
        .find(|(kind, _)| matches!(plain(kind).as_str(), "application/json" | "*/*" | "application/*"));
    let found = found.or_else(|| content.iter().find(|(kind, _)| plain(kind).ends_with("+json")));
    let Some((kind, media)) = found else {
        let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
        // A form or a file that may be left out is what the operation is about all the same.
        return Err(Unmapped(format!("its body is no JSON but {}", kinds.join(", "))));
    };
    let media_type = plain(kind).ends_with("+json").then(|| plain(kind));
    static ANYTHING: Value = Value::Bool(true);
    let schema = media.get("schema").unwrap_or(&ANYTHING);
    Ok(Some(Body { schema, whole, required, media_type }))
}
