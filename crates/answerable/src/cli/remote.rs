//! Speaking to a server over its HTTP API.

use std::fmt;
use std::time::Duration;

use clap::Args;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::{Host, Url};

use super::bootstrap::kept_key;
use crate::Failure;
use crate::timeline::printable;

/// How long a server may take to answer a plain request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 64 << 20;

const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// Which server, and who asks.
#[derive(Args)]
pub(crate) struct Remote {
    /// The server
    #[arg(long, env = "ANSWERABLE_URL", value_name = "URL", default_value = DEFAULT_URL)]
    url: String,
    /// Key of a tenant; if none is given and the server is on this machine, the one that `answerable dev`
    /// keeps in .answerable/
    #[arg(long, env = "ANSWERABLE_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<String>,
}

impl Remote {
    /// The API of that server.
    pub(crate) fn api(&self) -> Result<Api, Failure> {
        let base = base(&self.url)?;
        let given = self.api_key.clone().filter(|key| !key.is_empty()).map(SecretString::from);
        let key = given.or_else(|| if is_here(&base) { kept_key() } else { None });
        let key = key
            .ok_or_else(|| Failure::misconfigured("no API key: set ANSWERABLE_API_KEY or give --api-key"))?;
        Api::new(&base, key)
    }
}

/// The server's URL; an empty variable counts as not set.
pub(crate) fn base(text: &str) -> Result<Url, Failure> {
    let text = if text.trim().is_empty() { DEFAULT_URL } else { text.trim() };
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    // Not repeated: it may hold a password where none belongs.
    let url =
        url.ok_or_else(|| Failure::misconfigured("the server's URL (--url) is no http or https URL"))?;
    if url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err(Failure::misconfigured("the server's URL (--url) may not hold a user: the API key says who asks"))
}

pub(crate) fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// A client of one server with one key.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    base: Url,
    client: Client,
    bearer: HeaderValue,
    patience: Duration,
}

/// Why a request was not answered as hoped.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The server's status; `None` where there was no answer.
    pub(crate) status: Option<StatusCode>,
    message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal)
    }
}

impl Api {
    pub(crate) fn new(base: &Url, key: SecretString) -> Result<Self, Failure> {
        let mut client = Client::builder()
            .user_agent(concat!("answerable/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10));
        if is_here(base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|e| Failure::new(words(&e)))?;
        Ok(Self { base: base.clone(), client, bearer: bearer(&key)?, patience: PATIENCE })
    }

    /// The same with another key, over the same connections.
    pub(crate) fn with_key(&self, key: &SecretString) -> Result<Self, Failure> {
        Ok(Self { bearer: bearer(key)?, ..self.clone() })
    }

    /// The same, with another patience for plain requests.
    pub(crate) fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The URL of a path given by its segments, each encoded, so that an id can't lead elsewhere.
    pub(crate) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Only URLs like mailto: have no path, and those were refused.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    pub(crate) async fn get(&self, segments: &[&str]) -> Result<Value, Refusal> {
        self.call(Method::GET, segments, None).await
    }

    pub(crate) async fn post(&self, segments: &[&str], body: &Value) -> Result<Value, Refusal> {
        self.call(Method::POST, segments, Some(body)).await
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        segments: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, Refusal> {
        self.send(method, self.url(segments), body, &[]).await
    }

    /// A plain request and its JSON answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Value, Refusal> {
        let mut request = self.request(method, url).timeout(self.patience);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        let status = response.status();
        let text = read(response).await.map_err(|e| self.unreachable(&e))?;
        let answer: Option<Value> = serde_json::from_slice(&text).ok();
        match answer {
            None if status == StatusCode::NO_CONTENT => Ok(Value::Null),
            Some(answer) if status.is_success() => Ok(answer),
            answer => Err(refusal(status, answer.as_ref())),
        }
    }

    /// Opens a stream of a run's events after `after`; `None` when there is nothing left to say.
    pub(crate) async fn events(&self, run_id: &str, after: u64) -> Result<Option<Response>, Refusal> {
        let request = self.request(Method::GET, self.url(&["v1", "runs", run_id, "events"]));
        let request = request.header(ACCEPT, "text/event-stream").header("last-event-id", after.to_string());
        // No timeout for the whole: a stream lasts as long as its run.
        let response = tokio::time::timeout(self.patience, request.send())
            .await
            .map_err(|_| Refusal { status: None, message: format!("{} does not answer", self.base) })?
            .map_err(|e| self.unreachable(&e))?;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(None),
            status if status.is_success() => Ok(Some(response)),
            status => {
                let text = read(response).await.unwrap_or_default();
                Err(refusal(status, serde_json::from_slice(&text).ok().as_ref()))
            }
        }
    }

    /// Begins to take something large.
    pub(crate) async fn download(&self, segments: &[&str]) -> Result<Response, Refusal> {
        let request = self.request(Method::GET, self.url(segments));
        // No timeout for the whole: it lasts as long as there is something to take.
        let response = tokio::time::timeout(self.patience, request.send())
            .await
            .map_err(|_| Refusal { status: None, message: format!("{} does not answer", self.base) })?
            .map_err(|e| self.unreachable(&e))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = read(response).await.unwrap_or_default();
        Err(refusal(status, serde_json::from_slice(&text).ok().as_ref()))
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url).header(AUTHORIZATION, self.bearer.clone())
    }

    fn unreachable(&self, error: &reqwest::Error) -> Refusal {
        let message = if error.is_connect() {
            format!("no server answers at {}: {}", self.base, words(error))
        } else {
            format!("{}: {}", self.base, words(error))
        };
        Refusal { status: error.status(), message }
    }
}

fn bearer(key: &SecretString) -> Result<HeaderValue, Failure> {
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))
        .map_err(|_| Failure::misconfigured("the API key has characters that no key has"))?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if text.len() + chunk.len() > LONGEST_ANSWER {
            break;
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

/// The last cause says most: "connection refused" rather than "error sending request".
fn words(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A problem document in one line.
fn refusal(status: StatusCode, problem: Option<&Value>) -> Refusal {
    let field = |name: &str| problem.and_then(|problem| problem.get(name)?.as_str());
    let mut message = match field("code") {
        Some(code) => format!("{} {code}", status.as_u16()),
        None => format!("the server answered {status}"),
    };
    if let Some(detail) = field("detail").or_else(|| field("title")) {
        message.push_str(&format!(": {detail}"));
    }
    for error in problem.and_then(|problem| problem.get("errors")?.as_array()).into_iter().flatten() {
        let part = |name| error.get(name).and_then(Value::as_str).unwrap_or_default();
        message.push_str(&format!("; {} {}", part("pointer"), part("message")));
    }
    if let Some(id) = field("request_id").filter(|_| status.is_server_error()) {
        message.push_str(&format!(" (request {id})"));
    }
    Refusal { status: Some(status), message: printable(&message) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_are_told_in_one_line() {
        let problem = json!({"code": "invalid_request", "detail": "The body is wrong.", "request_id": "r",
            "errors": [{"pointer": "/agent/model", "message": "is missing"}]});
        let told = refusal(StatusCode::UNPROCESSABLE_ENTITY, Some(&problem)).to_string();
        assert_eq!(told, "422 invalid_request: The body is wrong.; /agent/model is missing");
        let told = refusal(StatusCode::BAD_GATEWAY, None).to_string();
        assert_eq!(told, "the server answered 502 Bad Gateway");
        let told =
            refusal(StatusCode::INTERNAL_SERVER_ERROR, Some(&json!({"code": "internal", "request_id": "r"})));
        assert_eq!(told.to_string(), "500 internal (request r)");
    }

    #[test]
    fn ids_can_not_lead_to_other_paths() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = Url::parse("http://127.0.0.1:1/base/").expect("URL");
        let api = Api::new(&base, "key".to_owned().into()).expect("client");
        let url = api.url(&["v1", "runs", "../../x?y#z"]);
        assert_eq!(url.as_str(), "http://127.0.0.1:1/base/v1/runs/..%2F..%2Fx%3Fy%23z");
    }
}
