//! Requests as the scripted world saw them.

use std::time::{Instant, SystemTime};

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::request::Parts;
use serde_json::Value;

/// The largest body that the scripted world takes, in bytes.
const LARGEST_BODY: usize = 64 << 20;

/// One request that came in.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The method in capitals.
    pub method: String,
    /// The path as sent, without the query.
    pub path: String,
    /// The query's parameters, decoded, in order.
    pub query: Vec<(String, String)>,
    /// Names in lower case with their values, in order.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Bytes,
    /// When it had come in whole.
    pub at: Instant,
    /// The same by the clock on the wall.
    pub wall_time: SystemTime,
}

impl RecordedRequest {
    /// Reads a request to its end; `None` where it was cut while it was being sent, so that it never came.
    pub(crate) async fn read(request: Request) -> Option<Self> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, LARGEST_BODY).await.ok()?;
        Some(Self::new(&parts, body))
    }

    fn new(parts: &Parts, body: Bytes) -> Self {
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        let headers = parts.headers.iter();
        Self {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: url::form_urlencoded::parse(query).into_owned().collect(),
            headers: headers
                .map(|(name, value)| {
                    (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                })
                .collect(),
            body,
            at: Instant::now(),
            wall_time: SystemTime::now(),
        }
    }

    /// The first header of this name, in whatever case it is asked for.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
