//! The address of a call: the author's template, in which each value is one path segment or one query value.

use answerable_core::agent::after_scheme;
use answerable_core::template::{Filling, Template};
use answerable_core::tool::Attempt;

use super::request::{invalid, unfilled};

/// Marks where a value begins while the address is put together. A noncharacter, which no address has.
const MARK: char = '\u{fdd1}';
/// Longest address in bytes; servers take little more.
const LONGEST: usize = 16 * 1024;

/// Fills the template of an address and adds `query` to it.
pub(super) fn fill(
    template: &str,
    filling: &Filling<'_>,
    query: &[(String, String)],
) -> Result<String, Attempt> {
    let template = Template::parse(template).map_err(unfilled)?;
    let marked = template.fill(filling, |value| format!("{MARK}{}", encoded(value))).map_err(unfilled)?;
    let marked = marked.split('#').next().unwrap_or_default();
    let (place, own_query) = marked.split_once('?').unwrap_or((marked, ""));
    check_place(place)?;
    let mut pairs: Vec<String> = Vec::new();
    if !own_query.is_empty() {
        pairs.push(own_query.replace(MARK, ""));
    }
    pairs.extend(query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))));
    let mut url = place.replace(MARK, "");
    if !pairs.is_empty() {
        url.push('?');
        url.push_str(&pairs.join("&"));
    }
    if url.len() > LONGEST { Err(invalid("the address would be too long")) } else { Ok(url) }
}

/// No value may choose the host, and none may make its segment another one (`..`) or nothing at all.
fn check_place(place: &str) -> Result<(), Attempt> {
    let after_scheme =
        after_scheme(place).ok_or_else(|| invalid("the address doesn't begin with its host"))?;
    // To whoever reads the address a backslash is a slash.
    let mut segments = after_scheme.split(['/', '\\']);
    if segments.next().is_some_and(|host| host.contains(MARK)) {
        return Err(invalid("a value can't choose the host"));
    }
    for segment in segments.filter(|segment| segment.contains(MARK)) {
        let plain = segment.replace(MARK, "").replace("%2e", ".").replace("%2E", ".");
        if matches!(plain.as_str(), "" | "." | "..") {
            return Err(invalid("a value in the address is empty or made of dots"));
        }
    }
    Ok(())
}

/// Everything but letters, digits and `-._~` as `%XX`.
fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn address(template: &str, value: &str, query: &[(&str, &str)]) -> Result<String, Attempt> {
        let (input, context) = (json!({"v": value}), json!({"user": "u/7"}));
        let filling =
            Filling { input: &input, context: &context, secrets: &BTreeMap::new(), idempotency_key: "k 1" };
        let query: Vec<_> = query.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        fill(template, &filling, &query)
    }

    #[test]
    fn a_value_keeps_its_place() {
        for (template, value, wanted) in [
            ("http://h/o/{{input.v}}", "../admin", "http://h/o/..%2Fadmin"),
            ("http://h/o/{{input.v}}", "7?as=root#x", "http://h/o/7%3Fas%3Droot%23x"),
            ("http://h/o/{{input.v}}/x", "a%2e b\\&é", "http://h/o/a%252e%20b%5C%26%C3%A9/x"),
            ("http://h/o-{{input.v}}", "..", "http://h/o-.."),
            ("http://h/{{input.v}}.json", ".", "http://h/..json"),
            ("http://h/?q={{input.v}}", "a=b&c=..", "http://h/?q=a%3Db%26c%3D.."),
            ("http://h/?q={{input.v}}", "", "http://h/?q="),
            ("http://h/{{context.user}}/{{idempotency_key}}#{{input.v}}", "x", "http://h/u%2F7/k%201"),
        ] {
            assert_eq!(address(template, value, &[]).as_deref(), Ok(wanted), "{template} {value}");
        }
    }

    #[test]
    fn a_value_that_would_leave_its_place_is_refused() {
        for (template, value) in [
            ("http://h/o/{{input.v}}", "."),
            ("http://h/o/{{input.v}}/x", ".."),
            ("http://h/o/{{input.v}}", ""),
            ("http://h/o/.{{input.v}}", "."),
            ("http://h/o/%2e{{input.v}}", "."),
            ("http://{{input.v}}/", "evil.example"),
            ("http://h:{{input.v}}/", "81"),
            ("http:/{{input.v}}/x", "evil.example"),
            ("http:{{input.v}}/x", "evil.example"),
            ("http:///{{input.v}}/x", "evil.example"),
            ("http://\\{{input.v}}/x", "evil.example"),
            ("http://\t/{{input.v}}/x", "evil.example"),
            ("http://h/o\\{{input.v}}\\x", ".."),
            ("http://h\\{{input.v}}", "."),
            ("{{input.v}}://h/x", "http"),
            ("http://h/{{input.none}}", "x"),
            ("http://h/{{input.v}}", &"x".repeat(LONGEST)),
        ] {
            assert!(matches!(address(template, value, &[]), Err(Attempt::Refused(..))), "{template} {value}");
        }
    }

    #[test]
    fn a_query_is_added() {
        let query = [("q", "a b&c=d/é+"), ("n", "3")];
        let wanted = "q=a%20b%26c%3Dd%2F%C3%A9%2B&n=3";
        assert_eq!(address("http://h/a", "", &query), Ok(format!("http://h/a?{wanted}")));
        assert_eq!(address("http://h/a?x={{input.v}}", "1", &query), Ok(format!("http://h/a?x=1&{wanted}")));
        assert_eq!(address("http://h/a?#f", "", &[]).as_deref(), Ok("http://h/a"));
    }
}
