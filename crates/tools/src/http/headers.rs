//! The headers of a call: the author's first, then those that tell the tool's owner what is called by whom.

use std::collections::BTreeMap;

use answerable_core::template::{Filling, Template};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::PreparedCall;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::request::{invalid, unfilled};
use crate::signature;

/// Longest value of a header in bytes; servers take little more.
const LONGEST: usize = 8 * 1024;

/// All headers of a call. `authored` are the author's templates by name; `body` is what is signed, nothing where none is sent.
pub(super) fn make(
    call: &PreparedCall,
    authored: &BTreeMap<String, String>,
    filling: &Filling<'_>,
    body: Option<&[u8]>,
    now: i64,
) -> Result<HeaderMap, Attempt> {
    let mut headers = HeaderMap::new();
    if body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, text) in authored {
        let template = Template::parse(text).map_err(unfilled)?;
        let filled = template.fill(filling, str::to_owned).map_err(unfilled)?;
        let mut known = value(name, &filled)?;
        known.set_sensitive(template.secrets().next().is_some());
        let name = HeaderName::try_from(name.as_str())
            .map_err(|_| invalid(format!("{name} is no header's name")))?;
        headers.insert(name, known);
    }
    let id = call.call_id.to_string();
    let signature = signature::sign(&call.signing_secrets, &id, now, body.unwrap_or_default())
        .map_err(|error| Attempt::Refused(ErrorCode::Internal, format!("{error}; nothing was sent")))?;
    for (name, text) in [
        ("idempotency-key", call.idempotency_key.as_str()),
        ("x-run-id", &call.run_id.to_string()),
        ("x-tool-call-id", &id),
        ("x-attempt", &call.attempt.to_string()),
        ("traceparent", &call.traceparent),
        ("webhook-id", &id),
        ("webhook-timestamp", &now.to_string()),
        ("webhook-signature", &signature),
    ] {
        headers.insert(HeaderName::from_static(name), value(name, text)?);
    }
    Ok(headers)
}

/// A header's value, which holds no line ends, NUL or other control characters. The message names the header only:
/// its value may be secret.
fn value(name: &str, text: &str) -> Result<HeaderValue, Attempt> {
    if text.len() > LONGEST {
        return Err(invalid(format!("the value for header {name} is too long")));
    }
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| invalid(format!("header {name} can't hold its value")))
}
