//! What is wrong with an `http` tool's target: its address, its headers, and the templates of what is sent.

use serde_json::Value;

use super::{HttpSpec, REDACTED};
use crate::FieldError;
use crate::template::Template;

/// Longest name of a query value in bytes.
const MAX_QUERY_NAME: usize = 128;

/// Where an `http` tool is and what is sent there; `at` is the tool's place.
pub(super) fn check_http(http: &HttpSpec, at: &str, errors: &mut Vec<FieldError>) {
    check_sent(http, at, errors);
    check_redacted(http, at, errors);
    let here = format!("{at}/http/url");
    match Template::parse(&http.url) {
        Err(error) => errors.push(FieldError::new(&here, error.to_string())),
        Ok(template) if template.secrets().next().is_some() => {
            errors.push(FieldError::new(&here, "secrets may stand in headers only"));
        }
        Ok(_) => check_url(&http.url, &here, errors),
    }
    for (name, text) in &http.headers {
        let here = format!("{at}/http/headers/{}", crate::field_error::pointer_token(name));
        let legal = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(legal) {
            errors.push(FieldError::new(&here, "not a header's name"));
        }
        if is_reserved(name) {
            errors.push(FieldError::new(&here, "this header is set by the runtime"));
        }
        if let Err(error) = Template::parse(text) {
            errors.push(FieldError::new(&here, error.to_string()));
        } else if text.contains(['\r', '\n', '\0']) {
            errors.push(FieldError::new(&here, "a header has no line ends"));
        }
    }
}

/// What was hidden when the agent was shown can't be stored in its value's place.
fn check_redacted(http: &HttpSpec, at: &str, errors: &mut Vec<FieldError>) {
    let named = |part: &'static str| {
        move |name: &String| format!("{part}/{}", crate::field_error::pointer_token(name))
    };
    let headers = http.headers.iter().map(|(name, text)| (named("headers")(name), text));
    let query = http.query.iter().flatten().map(|(name, text)| (named("query")(name), text));
    for (field, text) in headers.chain(query).chain([("url".to_owned(), &http.url)]) {
        if text.contains(REDACTED) {
            let message =
                "this was hidden when the agent was shown: write it anew, or better put it into a secret";
            errors.push(FieldError::new(format!("{at}/http/{field}"), message));
        }
    }
}

/// What is sent beside headers.
fn check_sent(http: &HttpSpec, at: &str, errors: &mut Vec<FieldError>) {
    for (name, text) in http.query.iter().flatten() {
        let here = format!("{at}/http/query/{}", crate::field_error::pointer_token(name));
        if name.is_empty() || name.len() > MAX_QUERY_NAME {
            errors.push(FieldError::new(&here, format!("a name has 1 to {MAX_QUERY_NAME} bytes")));
        }
        check_templates(&Value::String(text.clone()), &here, errors);
    }
    if let Some(body) = &http.body {
        let here = format!("{at}/http/body");
        if http.method.is_bodiless() {
            errors.push(FieldError::new(&here, format!("a {} has no body", http.method.as_str())));
        }
        check_templates(body, &here, errors);
    }
}

/// Headers that tell the tool's owner what is called by whom; no agent may write them.
fn is_reserved(name: &str) -> bool {
    const RESERVED: [&str; 12] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "idempotency-key",
        "x-run-id",
        "x-tool-call-id",
        "x-attempt",
        "traceparent",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    ];
    RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// An address that outgoing calls may have: http or https, with a fixed host and no user.
fn check_url(text: &str, at: &str, errors: &mut Vec<FieldError>) {
    let Some(after_scheme) = after_scheme(text) else {
        errors
            .push(FieldError::new(at, "must be an http or https address, with its host right after the //"));
        return;
    };
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains("{{") {
        errors.push(FieldError::new(at, "the host can't be a template"));
        return;
    }
    match url::Url::parse(&text.replace("{{", "").replace("}}", "")) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            errors.push(FieldError::new(at, "an address has no user; credentials belong into headers"));
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {}
        Ok(_) => errors.push(FieldError::new(at, "must be an http or https address")),
        Err(error) => errors.push(FieldError::new(at, format!("not an address: {error}"))),
    }
}

/// What follows the scheme of an http or https address. It begins with the host: `None` where a parser would look for that
/// further on, past slashes, line ends and the like, for there a template's value could stand.
#[must_use]
pub fn after_scheme(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    let is_http = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let is_plain = !rest.starts_with(['/', '\\']) && !address.contains(|c: char| c.is_control());
    (is_http && is_plain).then_some(rest)
}

/// Templates in the strings of a value, which name no secret.
pub(super) fn check_templates(value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::String(text) => match Template::parse(text) {
            Err(error) => errors.push(FieldError::new(at, error.to_string())),
            Ok(template) if template.secrets().next().is_some() => {
                errors.push(FieldError::new(at, "secrets may stand in headers only"));
            }
            Ok(_) => {}
        },
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                check_templates(item, &format!("{at}/{i}"), errors);
            }
        }
        Value::Object(map) => {
            for (name, item) in map {
                check_templates(item, &format!("{at}/{}", crate::field_error::pointer_token(name)), errors);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Places of what is wrong with a tool at `url` that sends this.
    fn faults(url: &str, more: &Value) -> Vec<String> {
        let mut target = json!({"url": url});
        target.as_object_mut().expect("a target").extend(more.as_object().expect("fields").clone());
        let target: HttpSpec = serde_json::from_value(target).expect("types");
        let mut errors = Vec::new();
        check_http(&target, "/tools/0", &mut errors);
        errors.into_iter().map(|fault| fault.pointer).collect()
    }

    #[test]
    fn addresses() {
        for fine in [
            "https://shop.example/o/{{input.id}}?q={{context.q}}",
            "http://[::1]:80/",
            "http://0x7f.1/",
            "HTTPS://h//{{input.id}}",
            "http://h?{{input.id}}",
        ] {
            assert_eq!(faults(fine, &json!({})), [""; 0], "{fine}");
        }
        for odd in [
            "file:///etc/passwd",
            "gopher://h/",
            "https://{{input.host}}/",
            "http://h/{{secret.a}}",
            "/a",
            "http://",
            "http://u:p@h/",
            "http:/h/x",
            "http:h/x",
            "http:///h/x",
            "http://{{input.h}}/x",
            "http://{{context.h}}:80/x",
            "http://h.{{input.h}}/x",
            "http://h\\{{input.h}}/x",
            "http:{{input.h}}/x",
            "http:/{{input.h}}/x",
            "http:///{{input.h}}/x",
            "http:////{{input.h}}/x",
            "http://\\{{input.h}}/x",
            "http:\\\\{{input.h}}/x",
            "http:\\/{{input.h}}/x",
            "http://\t/{{input.h}}/x",
            "ht\ntp:///{{input.h}}/x",
            "http://?{{input.h}}/x",
            " http://h/",
            "{{input.scheme}}://h/",
            "{{input.all}}",
        ] {
            assert_eq!(faults(odd, &json!({})), ["/tools/0/http/url"], "{odd}");
        }
    }

    #[test]
    fn what_is_sent() {
        for fine in [
            json!({"query": {}}),
            json!({"query": {"filter[a]": "{{input.a}}", "of": "u-{{context.user}}"}}),
            json!({"body": {"a": ["{{input.a}}", 5], "key": "{{idempotency_key}}"}}),
            json!({"body": "{{input.body}}"}),
        ] {
            assert_eq!(faults("http://h/", &fine), [""; 0], "{fine}");
        }
        for (odd, wanted) in [
            (json!({"query": {"": "x"}}), "/tools/0/http/query/"),
            (json!({"query": {"a/b": "{{secret.a}}"}}), "/tools/0/http/query/a~1b"),
            (json!({"query": {"a": "{{env.a}}"}}), "/tools/0/http/query/a"),
            (json!({"body": {"a": ["{{secret.a}}"]}}), "/tools/0/http/body/a/0"),
            (json!({"body": "{{"}), "/tools/0/http/body"),
            (json!({"body": {}, "method": "DELETE"}), "/tools/0/http/body"),
        ] {
            assert_eq!(faults("http://h/", &odd), [wanted], "{odd}");
        }
    }
}
