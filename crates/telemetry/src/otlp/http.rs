//! OTLP over HTTP, as protobuf.

use std::fmt;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use prost::Message as _;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response};
use url::Url;

use super::target::{Target, TargetError, USER_AGENT};
use super::wire::{Export, NotTaken, Taken, shortened, with_causes};

/// Longest answer that is read.
const LONGEST_ANSWER: usize = 64 * 1024;

/// One URL, and a client that keeps its connections. It isn't the guarded one: the operator names the collector, which may
/// well have a private address, and no tenant can.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    url: Url,
    headers: HeaderMap,
    gzip: bool,
}

/// Its URL may hold a key.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl Http {
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        let mut client = Client::builder()
            .user_agent(USER_AGENT)
            .redirect(Policy::none())
            // As over gRPC, which knows no proxies.
            .no_proxy()
            .connect_timeout(target.timeout);
        if let Some(pem) = &target.certificate {
            let trusted = Certificate::from_pem_bundle(pem).map_err(|error| unusable(&error))?;
            client = client.tls_certs_only(trusted);
        }
        let mut headers = target.header_map()?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        if target.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let client = client.build().map_err(|error| unusable(&error))?;
        Ok(Self { client, url: target.endpoint.clone(), headers, gzip: target.gzip })
    }

    pub(crate) async fn send<E: Export>(&self, request: &E) -> Result<Taken, NotTaken> {
        let body = request.encode_to_vec();
        let body = if self.gzip {
            zipped(&body).map_err(|error| NotTaken::not_now(error.to_string()))?
        } else {
            body
        };
        let sent = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body).send().await;
        // The URL may hold a key.
        let response = sent.map_err(|error| NotTaken::not_now(with_causes(&error.without_url())))?;
        let (status, asked) = (response.status().as_u16(), retry_after(response.headers()));
        let answer = answer(response).await;
        match status {
            // A collector that answers nothing readable has taken all.
            200..=299 => Ok(E::Answer::decode(answer).map(E::taken).unwrap_or_default()),
            // What is wrong is in the request: too large, or not to be understood.
            400 | 413 | 422 => Err(NotTaken::Refused(told(status, &answer))),
            _ => Err(NotTaken::NotNow { why: told(status, &answer), after: asked }),
        }
    }
}

fn unusable(error: &reqwest::Error) -> TargetError {
    TargetError(with_causes(error))
}

fn zipped(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    zipped.write_all(body)?;
    zipped.finish()
}

/// The answer's body as far as it is read; an answer that is cut off says no more.
async fn answer(mut response: Response) -> Bytes {
    let mut answer = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = LONGEST_ANSWER - answer.len();
        answer.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if answer.len() == LONGEST_ANSWER {
            break;
        }
    }
    answer.freeze()
}

/// What a collector says to a request that it doesn't take: a `google.rpc.Status`, or text.
fn told(status: u16, answer: &[u8]) -> String {
    let words = match tonic_types::Status::decode(answer) {
        Ok(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(answer).into_owned(),
    };
    let words = shortened(&words);
    if words.is_empty() { format!("answered {status}") } else { format!("answered {status}: {words}") }
}

/// `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    at.duration_since(SystemTime::now()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_by_a_date() {
        let asked = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(text).expect("a header"));
            retry_after(&headers)
        };
        assert_eq!(asked(" 12 "), Some(Duration::from_secs(12)));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
        assert!((55..=60).contains(&asked(&date).expect("a pause").as_secs()));
        for text in ["soon", "-1", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(asked(text), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn a_refusal_is_told_in_one_short_line() {
        let status = tonic_types::Status { code: 3, message: "bad\nspan".into(), details: Vec::new() };
        assert_eq!(told(400, &status.encode_to_vec()), "answered 400: badspan");
        assert_eq!(told(502, b"<html>\r\n bad gateway "), "answered 502: <html> bad gateway");
        assert_eq!(told(503, b""), "answered 503");
        assert_eq!(told(500, &[0xff; 9_000]).chars().count(), "answered 500: ".len() + 200);
    }
}
