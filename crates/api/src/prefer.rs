//! `Prefer: wait=N` (RFC 7240): the answer may be held.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;

/// Longest wait.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

/// How long the answer may be held; `None`: not at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreferWait(pub(crate) Option<Duration>);

impl<S: Sync> FromRequestParts<S> for PreferWait {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(wait(&parts.headers)))
    }
}

/// The first `wait` counts; preferences that make no sense are ignored, as the RFC has it.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let preferences =
        values.flat_map(|value| value.split(',')).filter_map(|preference| preference.split(';').next());
    let mut named = preferences.filter_map(|preference| preference.split_once('='));
    let (_, seconds) = named.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    let seconds = seconds.trim().trim_matches('"').parse().ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds).min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_and_capped() {
        for (text, wanted) in [
            ("wait=20", Some(20)),
            ("respond-async, Wait = \"5\"; x=1", Some(5)),
            ("wait=9999", Some(60)),
            ("wait=0", None),
            ("wait=-1", None),
            ("wait", None),
            ("waiting=3", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", text.parse().expect("a header"));
            assert_eq!(wait(&headers), wanted.map(Duration::from_secs), "{text}");
        }
    }
}
