//! Where spans or metrics go, and how.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// A collector, for one signal.
#[derive(Clone)]
pub struct Target {
    /// Over HTTP the whole URL (`…/v1/traces`), over gRPC scheme, host and port.
    pub endpoint: Url,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Sent with each request; their values are secrets.
    pub headers: Vec<(HeaderName, SecretString)>,
    /// Longest time of a request.
    pub timeout: Duration,
    /// Requests are compressed.
    pub gzip: bool,
    /// Certificates to trust (PEM) instead of those that the machine trusts.
    pub certificate: Option<Vec<u8>>,
}

/// How a collector is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`.
    Http,
    /// `grpc`.
    Grpc,
}

/// A collector that can't be spoken to as it is described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub(crate) String);

/// Without what may hold a key.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Target")
            .field("endpoint", &self.shown())
            .field("protocol", &self.protocol)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// The endpoint as it may be shown: a query may hold a key.
    pub(crate) fn shown(&self) -> String {
        let mut url = self.endpoint.clone();
        url.set_query(None);
        url.to_string()
    }

    pub(crate) fn header_map(&self) -> Result<HeaderMap, TargetError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let mut value = HeaderValue::from_str(value.expose_secret())
                .map_err(|_| TargetError(format!("the value of {name} can't be a header's")))?;
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
        Ok(headers)
    }
}

/// What a request says about its sender.
pub(crate) const USER_AGENT: &str = concat!("answerable/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown() {
        let target = Target {
            endpoint: "https://c.example/v1/traces?key=hush".parse().expect("a URL"),
            protocol: Protocol::Http,
            headers: vec![(HeaderName::from_static("x-key"), "hush".into())],
            timeout: Duration::from_secs(1),
            gzip: false,
            certificate: None,
        };
        assert_eq!(target.shown(), "https://c.example/v1/traces");
        let printed = format!("{target:?} {:?}", target.header_map().expect("headers"));
        assert!(printed.contains("x-key") && !printed.contains("hush"), "{printed}");
    }
}
