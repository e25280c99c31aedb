//! `If-Match` and `If-None-Match` of requests that change a file: what must be there (RFC 9110).

use answerable_ports::Expected;
use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::request::Parts;

use crate::problem::Problem;

/// No file has it.
const NEVER: i64 = 0;

/// What the request takes the file for; `None`: it doesn't say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Precondition(pub(crate) Option<Expected>);

/// A version as an entity tag.
pub(crate) fn tag(version: i64) -> String {
    format!("\"{version}\"")
}

impl<S: Send + Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read(&parts.headers).map(Self)
    }
}

fn read(headers: &HeaderMap) -> Result<Option<Expected>, Problem> {
    match (one(headers, &IF_MATCH)?, one(headers, &IF_NONE_MATCH)?) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(Expected::Present)),
        (Some(tag), None) if tag.contains(',') => Err(wrong(&IF_MATCH, "may name one version")),
        (Some(tag), None) => Ok(Some(Expected::Version(version(tag)))),
        (None, Some("*")) => Ok(Some(Expected::Absent)),
        (None, Some(_)) => Err(wrong(&IF_NONE_MATCH, "can be * alone")),
        (Some(_), Some(_)) => Err(wrong(&IF_NONE_MATCH, "does not go with If-Match")),
    }
}

fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(|text| Some(text.trim())).map_err(|_| wrong(name, "is no tag"))
        }
        (Some(_), Some(_)) => Err(wrong(name, "may be given once")),
    }
}

/// A tag that this server did not give matches nothing; nor does a weak one.
fn version(tag: &str) -> i64 {
    let digits = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let version = digits.parse().unwrap_or(NEVER);
    if version.to_string() == digits { version } else { NEVER }
}

fn wrong(name: &HeaderName, words: &str) -> Problem {
    Problem::invalid_at(format!("/header/{name}"), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_there() {
        let of = |pairs: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name, value.parse().expect("a value"));
            }
            read(&headers).map_err(|_| ())
        };
        let known = Expected::Version;
        for (name, value, wanted) in [
            (IF_MATCH, "\"7\"", Ok(Some(known(7)))),
            (IF_MATCH, " \"7\" ", Ok(Some(known(7)))),
            (IF_MATCH, "*", Ok(Some(Expected::Present))),
            (IF_MATCH, "W/\"7\"", Ok(Some(known(NEVER)))),
            (IF_MATCH, "7", Ok(Some(known(NEVER)))),
            (IF_MATCH, "\"07\"", Ok(Some(known(NEVER)))),
            (IF_MATCH, "\"abc\"", Ok(Some(known(NEVER)))),
            (IF_MATCH, "\"1\", \"2\"", Err(())),
            (IF_NONE_MATCH, "*", Ok(Some(Expected::Absent))),
            (IF_NONE_MATCH, "\"7\"", Err(())),
        ] {
            assert_eq!(of(&[(name, value)]), wanted, "{value}");
        }
        assert_eq!(of(&[]), Ok(None));
        assert!(of(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")]).is_err());
        assert!(of(&[(IF_MATCH, "\"1\""), (IF_MATCH, "\"2\"")]).is_err());
        assert_eq!(tag(7), "\"7\"");
    }
}
