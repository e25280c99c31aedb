//! Asking a server.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use crate::Result;

/// Longer than any answer should take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client with a key, at one server.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: String,
}

/// A tenant, and a client with its `admin` key.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its id.
    pub id: String,
    /// Asks for it.
    pub client: Client,
}

impl Client {
    /// Asks the server at `base` with this key.
    ///
    /// # Errors
    /// No client can be made.
    pub fn new(base: &str, key: &str) -> Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { http, base: base.to_owned(), key: key.to_owned() })
    }

    /// The same with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// The same at another server.
    #[must_use]
    pub fn at(&self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self.clone() }
    }

    /// The body of a success.
    ///
    /// # Errors
    /// No answer comes, or another one.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, None).await
    }

    /// The same of a POST.
    ///
    /// # Errors
    /// No answer comes, or another one.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// The same of a PUT.
    ///
    /// # Errors
    /// No answer comes, or another one.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// The same of a PATCH.
    ///
    /// # Errors
    /// No answer comes, or another one.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// A request with the key, to be built up further.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.key)
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let name = format!("{method} {path}");
        let mut request = self.request(method, path).timeout(PATIENCE);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.map_err(|error| format!("{name}: {error}"))?;
        let (status, text) = (answer.status(), answer.text().await?);
        if !status.is_success() {
            return Err(format!("{name} answered {status}: {text}").into());
        }
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? })
    }
}
