//! Where a signal goes. A variable of its own stands before the one for all signals.

use std::time::Duration;

use answerable_telemetry::otlp::{LONGEST_TIMEOUT, Protocol, Target};
use axum::http::{HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::SecretString;
use url::Url;

use super::{Variables, pairs};
use crate::config::{Invalid, read};

const DEFAULT_TIMEOUT_MS: u64 = 10_000;

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// The variable that chooses its exporters.
    pub(super) fn exporter(self) -> String {
        format!("OTEL_{}_EXPORTER", self.word())
    }

    /// The exporters that there are for it.
    pub(super) fn exporters(self) -> &'static [&'static str] {
        match self {
            Self::Traces => &["otlp", "none"],
            Self::Metrics => &["otlp", "prometheus", "none"],
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    /// Below the endpoint for all signals.
    fn path(self) -> [&'static str; 2] {
        match self {
            Self::Traces => ["v1", "traces"],
            Self::Metrics => ["v1", "metrics"],
        }
    }
}

/// The variables for one thing, the stronger one first.
pub(super) fn names(what: &str, signal: Signal) -> [String; 2] {
    [format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.word()), format!("OTEL_EXPORTER_OTLP_{what}")]
}

pub(super) fn target(variables: Variables<'_>, signal: Signal) -> Result<Target, Invalid> {
    let of = Of { variables, signal };
    let protocol = of.get("PROTOCOL", protocol)?.unwrap_or(Protocol::Http);
    let timeout = of.get("TIMEOUT", |text| read::whole(text, 1..=longest_timeout()))?;
    Ok(Target {
        endpoint: of.endpoint(protocol)?,
        protocol,
        headers: of.get("HEADERS", headers)?.unwrap_or_default(),
        timeout: Duration::from_millis(timeout.unwrap_or(DEFAULT_TIMEOUT_MS)),
        gzip: of.get("COMPRESSION", compression)?.unwrap_or(false),
        certificate: of.get("CERTIFICATE", certificate)?,
    })
}

#[derive(Clone, Copy)]
struct Of<'a> {
    variables: Variables<'a>,
    signal: Signal,
}

impl Of<'_> {
    fn get<T>(self, what: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, Invalid> {
        let [own, of_all] = names(what, self.signal);
        match self.variables.get(&own, &read)? {
            Some(value) => Ok(Some(value)),
            None => self.variables.get(&of_all, &read),
        }
    }

    /// A signal's own endpoint is taken as it is; the one for all gets the signal's path.
    fn endpoint(self, protocol: Protocol) -> Result<Url, Invalid> {
        let [own, of_all] = names("ENDPOINT", self.signal);
        let read = |text: &str| endpoint(text, protocol);
        if let Some(url) = self.variables.get(&own, read)? {
            return Ok(url);
        }
        let default = match protocol {
            Protocol::Http => "http://localhost:4318",
            Protocol::Grpc => "http://localhost:4317",
        };
        let mut url = match self.variables.get(&of_all, read)? {
            Some(url) => url,
            None => Url::parse(default).map_err(|error| Invalid(format!("{default}: {error}")))?,
        };
        if let (Protocol::Http, Ok(mut path)) = (protocol, url.path_segments_mut()) {
            path.pop_if_empty().extend(self.signal.path());
        }
        Ok(url)
    }
}

fn longest_timeout() -> u64 {
    u64::try_from(LONGEST_TIMEOUT.as_millis()).unwrap_or(u64::MAX)
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text.to_lowercase().as_str() {
        "http/protobuf" => Ok(Protocol::Http),
        "grpc" => Ok(Protocol::Grpc),
        _ => Err(format!("is {text:?}, and http/protobuf or grpc is needed")),
    }
}

/// The text is not repeated: it may hold a key.
fn endpoint(text: &str, protocol: Protocol) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is no URL ({error}): http://collector:4318"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("is no http or https URL: http://collector:4318".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("may not have a user or a fragment; keys go into OTEL_EXPORTER_OTLP_HEADERS".to_owned());
    }
    match protocol {
        Protocol::Grpc if url.path() != "/" || url.query().is_some() => {
            Err("has a path, and with grpc there is none: http://collector:4317".to_owned())
        }
        _ => Ok(url),
    }
}

fn headers(text: &str) -> Result<Vec<(HeaderName, SecretString)>, String> {
    let header = |(at, (name, value)): (usize, (String, String))| {
        let legal = HeaderName::try_from(&name).ok().filter(|_| HeaderValue::from_str(&value).is_ok());
        let name = legal.ok_or_else(|| format!("has something that is no header in its item {}", at + 1))?;
        Ok((name, SecretString::from(value)))
    };
    pairs::read(text)?.into_iter().enumerate().map(header).collect()
}

fn compression(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "gzip" => Ok(true),
        "none" => Ok(false),
        _ => Err(format!("is {text:?}, and gzip or none is needed")),
    }
}

/// The certificates in a file.
fn certificate(path: &str) -> Result<Vec<u8>, String> {
    let pem = std::fs::read(path).map_err(|error| format!("is {path:?}: {error}"))?;
    let mut certificates = CertificateDer::pem_slice_iter(&pem).peekable();
    match certificates.peek().is_some() && certificates.all(|certificate| certificate.is_ok()) {
        true => Ok(pem),
        false => Err(format!("is {path:?}, and a file with certificates in PEM is needed")),
    }
}
