//! Getting an issuer's keys: from where the operator says, or from where the issuer says (OpenID Connect Discovery).

use answerable_tools::{GuardedClient, Refused};
use http::Method;
use serde::Deserialize;
use url::{Host, Url};

use crate::key_set::{KeySet, NoKeySet};

/// Longest document, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// Where keys come from.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) client: GuardedClient,
    pub(crate) issuer: String,
    /// Where they are, if the operator says so.
    pub(crate) jwks_url: Option<String>,
}

/// Why no keys came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoKeys {
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("no answer: {0}")]
    NoAnswer(String),
    #[error("the answer has status {0}")]
    Status(u16),
    #[error("the answer is longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("the issuer's configuration can't be read")]
    Unreadable,
    #[error("the configuration is another issuer's")]
    OtherIssuer,
    #[error("the issuer names a place for its keys that is not https")]
    Unsafe,
    #[error("what came as keys is of no use: {0}")]
    NoKeySet(#[from] NoKeySet),
}

/// What is looked at of an issuer's configuration.
#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

impl Source {
    /// Gets the keys.
    pub(crate) async fn fetch(&self) -> Result<KeySet, NoKeys> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discovered().await?,
        };
        Ok(KeySet::read(&self.get(&url).await?)?)
    }

    async fn discovered(&self) -> Result<String, NoKeys> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let found: Configuration =
            serde_json::from_slice(&self.get(&url).await?).map_err(|_| NoKeys::Unreadable)?;
        if found.issuer != self.issuer {
            return Err(NoKeys::OtherIssuer);
        }
        if is_safe(&found.jwks_uri) { Ok(found.jwks_uri) } else { Err(NoKeys::Unsafe) }
    }

    async fn get(&self, url: &str) -> Result<Vec<u8>, NoKeys> {
        let request = self.client.request(Method::GET, url)?.header("accept", "application/json");
        // Its words name the address, which is the operator's own.
        let mut answer = request.send().await.map_err(|error| NoKeys::NoAnswer(error.to_string()))?;
        if answer.status().as_u16() != 200 {
            return Err(NoKeys::Status(answer.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| NoKeys::NoAnswer(error.to_string()))? {
            if bytes.len() + chunk.len() > MAX_BYTES {
                return Err(NoKeys::TooLong);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

/// Whether nobody on the way can put keys of their own in place of those at this address: it is https, or this machine's.
pub fn is_safe(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_by_https_or_from_this_machine() {
        for safe in ["https://id.example/keys", "http://127.0.0.1:80/k", "http://[::1]/", "http://localhost/"]
        {
            assert!(is_safe(safe), "{safe}");
        }
        for unsafe_ in
            ["http://id.example/", "http://10.0.0.1/", "http://localhost.example/", "file:///k", "k"]
        {
            assert!(!is_safe(unsafe_), "{unsafe_}");
        }
    }
}
