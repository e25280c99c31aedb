//! Requests that are asked until they are answered, at whatever server.

use std::time::{Duration, Instant};

use rand::RngExt;
use reqwest::Method;
use serde_json::Value;

use super::endpoints::Endpoints;

/// How long one try waits.
const PATIENCE: Duration = Duration::from_secs(8);

/// Somebody with a key.
#[derive(Clone, Debug)]
pub struct Caller {
    http: reqwest::Client,
    endpoints: Endpoints,
    key: String,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    method: Method,
    path: String,
    body: Option<Value>,
    idempotency_key: Option<String>,
    prefer_wait: Option<u64>,
    until: Option<Instant>,
}

/// An answer that is final: 2xx, or 4xx that another try would not change.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
}

impl Answer {
    /// 2xx.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Ask {
    /// GET.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None)
    }

    /// POST.
    #[must_use]
    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::POST, path, Some(body))
    }

    /// PUT.
    #[must_use]
    pub fn put(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::PUT, path, Some(body))
    }

    /// PATCH.
    #[must_use]
    pub fn patch(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::PATCH, path, Some(body))
    }

    fn new(method: Method, path: impl Into<String>, body: Option<Value>) -> Self {
        let path = path.into();
        Self { method, path, body, idempotency_key: None, prefer_wait: None, until: None }
    }

    /// With an `Idempotency-Key`, the same on every try.
    #[must_use]
    pub fn once(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// With `Prefer: wait`.
    #[must_use]
    pub fn waiting(mut self, seconds: Option<u64>) -> Self {
        self.prefer_wait = seconds;
        self
    }

    /// Given up at some time.
    #[must_use]
    pub fn until(mut self, until: Instant) -> Self {
        self.until = Some(until);
        self
    }
}

impl Caller {
    /// A caller with a key of a tenant, or the operator's.
    #[must_use]
    pub fn new(endpoints: Endpoints, key: &str) -> Self {
        // Fails where there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().connect_timeout(Duration::from_secs(2)).build();
        Self { http: http.unwrap_or_default(), endpoints, key: key.to_owned() }
    }

    /// The same person with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// Asks until there is an answer. Nothing, a cut, a time-out, 5xx, 429 and "still under way" are none. `None`: the
    /// request's time is over.
    pub async fn ask(&self, ask: &Ask) -> Option<Answer> {
        let mut tries = 0_u32;
        loop {
            if let Some(base) = self.endpoints.any()
                && let Ok(answer) = self.ask_once(&base, ask).await
            {
                return Some(answer);
            }
            if ask.until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            tries += 1;
            let most = 50_u64 << tries.min(4);
            let pause = rand::rng().random_range(most / 2..=most);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// One try at one server; `Err`: no answer.
    async fn ask_once(&self, base: &str, ask: &Ask) -> Result<Answer, ()> {
        let patience = PATIENCE + Duration::from_secs(ask.prefer_wait.unwrap_or_default());
        let url = format!("{base}{}", ask.path);
        let mut request = self.http.request(ask.method.clone(), url).bearer_auth(&self.key).timeout(patience);
        if let Some(body) = &ask.body {
            request = request.json(body);
        }
        if let Some(key) = &ask.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if let Some(seconds) = ask.prefer_wait {
            request = request.header("prefer", format!("wait={seconds}"));
        }
        let response = request.send().await.map_err(drop)?;
        let (status, waits) = (response.status().as_u16(), response.headers().contains_key("retry-after"));
        let text = response.text().await.map_err(drop)?;
        if status >= 500 || status == 429 || (status == 409 && waits) {
            return Err(());
        }
        Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or_default() })
    }

    /// A live stream of a run's events at any server, from behind `after` on.
    ///
    /// # Errors
    /// No server, or none that answered.
    pub async fn stream(&self, run_id: &str, after: u64) -> Result<reqwest::Response, ()> {
        let url = format!("{}/v1/runs/{run_id}/events", self.endpoints.any().ok_or(())?);
        let request = self.http.get(url).bearer_auth(&self.key).header("accept", "text/event-stream");
        request.header("last-event-id", after.to_string()).send().await.map_err(drop)
    }

    /// All pages of a list, with retries; `None`: not found, or out of time.
    pub async fn list(&self, path: &str, until: Instant) -> Option<Vec<Value>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let ask = Ask::get(format!("{path}?limit=200{cursor}")).until(until);
            let mut page = self.ask(&ask).await.filter(Answer::is_ok)?.body;
            all.extend(page["data"].as_array_mut().map(std::mem::take).unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Some(all),
            }
        }
    }
}
