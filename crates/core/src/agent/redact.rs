//! Secrets that an author wrote into an agent, taken out of it. Templates stay: they name a secret and don't hold it.

use serde_json::Value;

/// What stands for what was taken out.
pub const REDACTED: &str = "[redacted]";
/// Words in the name of a header or parameter that holds a secret.
const SECRET_WORDS: [&str; 10] =
    ["token", "secret", "key", "password", "passwd", "signature", "auth", "credential", "cookie", "session"];
/// Whole names of such.
const SECRET_NAMES: [&str; 4] = ["sig", "code", "pwd", "pass"];
/// What may stand beside a template: the scheme of an `Authorization` header.
const SCHEMES: [&str; 7] = ["basic", "bearer", "token", "digest", "apikey", "key", "negotiate"];

/// An agent without the secrets that are written out in its tools' headers and addresses.
#[must_use]
pub fn redacted(agent: &Value) -> Value {
    let mut agent = agent.clone();
    let tools = agent.get_mut("tools").and_then(Value::as_array_mut);
    for http in tools.into_iter().flatten().filter_map(|tool| tool.get_mut("http")) {
        for (name, value) in http.get_mut("headers").and_then(Value::as_object_mut).into_iter().flatten() {
            if let (true, Value::String(text)) = (is_secret(name), &mut *value)
                && !is_template(text)
            {
                *value = REDACTED.into();
            }
        }
        for (name, value) in http.get_mut("query").and_then(Value::as_object_mut).into_iter().flatten() {
            if is_secret(name) && !value.as_str().is_some_and(is_template) {
                *value = REDACTED.into();
            }
        }
        if let Some(Value::String(url)) = http.get_mut("url") {
            *url = redacted_url(url);
        }
    }
    agent
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.contains(&name.as_str()) || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether nothing but templates stands in it, and a scheme perhaps.
fn is_template(text: &str) -> bool {
    let (mut literal, mut rest, mut slots) = (String::new(), text, 0);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((_, after)) = after.split_once("}}") else { return false };
        literal.push_str(before);
        slots += 1;
        rest = after;
    }
    literal.push_str(rest);
    let literal = literal.trim().to_ascii_lowercase();
    slots > 0 && (literal.is_empty() || SCHEMES.contains(&literal.as_str()))
}

/// An address without what in it may be a secret.
pub(crate) fn redacted_url(url: &str) -> String {
    let (url, fragment) = url.split_once('#').map_or((url, None), |(url, fragment)| (url, Some(fragment)));
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let mut out = without_user(address);
    if let Some(query) = query {
        let parameter = |pair: &str| match pair.split_once('=') {
            Some((name, value)) if is_secret(name) && !is_template(value) => format!("{name}={REDACTED}"),
            _ => pair.to_owned(),
        };
        out.push('?');
        out.push_str(&query.split('&').map(parameter).collect::<Vec<_>>().join("&"));
    }
    if let Some(fragment) = fragment {
        out.push('#');
        out.push_str(fragment);
    }
    out
}

/// `https://user:password@host/path` without user and password.
fn without_user(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((user, host)) if !user.split(':').all(is_template) => {
            format!("{scheme}://{REDACTED}@{host}{path}")
        }
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_out_goes_and_templates_stay() {
        let agent = |headers: Value, url: &str| json!({"tools": [{"name": "t", "http": {"url": url, "headers": headers}}]});
        let headers = json!({
            "authorization": "Bearer {{secret.shop}}", "Proxy-Authorization": "Basic abc", "cookie": "a=1", "x-api-key": "k-1",
            "x-signature": "{{secret.a}}{{secret.b}}", "x-session-token": "Bearer x{{secret.shop}}", "accept": "text/plain",
            "x-key": "sk-9 {{secret.shop}}",
        });
        let shown =
            redacted(&agent(headers, "https://u:p@shop.example/a?api_key=1&q=2&token={{context.t}}#x"));
        assert_eq!(
            shown,
            agent(
                json!({
                    "authorization": "Bearer {{secret.shop}}", "Proxy-Authorization": REDACTED, "cookie": REDACTED,
                    "x-api-key": REDACTED, "x-signature": "{{secret.a}}{{secret.b}}", "x-session-token": REDACTED,
                    "accept": "text/plain", "x-key": REDACTED,
                }),
                "https://[redacted]@shop.example/a?api_key=[redacted]&q=2&token={{context.t}}#x"
            )
        );
    }

    #[test]
    fn what_holds_no_secret_stays_as_it_is() {
        for agent in [
            json!({"name": "a"}),
            json!({"tools": [{"name": "ask", "kind": "client"}]}),
            json!({"tools": [{"http": {"url": "https://shop.example/{{input.id}}?q={{input.q}}&n=5", "headers": {}}}]}),
            json!({"tools": [{"http": {"url": "https://{{context.user}}:{{context.pin}}@shop.example"}}]}),
        ] {
            assert_eq!(redacted(&agent), agent);
        }
    }
}
