//! Reads a document from an address, a file or standard input.

use std::io::Read as _;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;
use serde_json::Value;
use url::Url;

use crate::Failure;

/// Largest document, in bytes.
const MOST: usize = 32 << 20;
/// How long an address may take to give it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Redirects that are followed: it is the caller's own machine that asks.
const MOST_REDIRECTS: usize = 5;

/// The address that a source is, if it is one.
pub(super) fn address(source: &str) -> Option<Url> {
    Url::parse(source).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Reads and parses a source.
pub(super) async fn document(source: &str) -> Result<Value, Failure> {
    let bytes = match address(source) {
        Some(url) => fetched(url).await?,
        None if source == "-" => within(std::io::stdin().lock(), source)?,
        None => {
            let file =
                std::fs::File::open(source).map_err(|error| Failure::new(format!("{source}: {error}")))?;
            within(file, source)?
        }
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| Failure::new(format!("{source} is no UTF-8 text")))?;
    parse(text).map_err(|why| Failure::new(format!("{source}: {why}")))
}

/// JSON, or else YAML.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"));
    }
    serde_yaml_ng::from_str(text).map_err(|error| format!("neither JSON nor YAML: {error}"))
}

fn within(from: impl std::io::Read, source: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    from.take(MOST as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format!("{source}: {error}")))?;
    if bytes.len() > MOST { Err(too_large(source)) } else { Ok(bytes) }
}

async fn fetched(url: Url) -> Result<Vec<u8>, Failure> {
    let failure = |error: reqwest::Error| Failure::new(format!("the document can't be read: {error}"));
    let client = Client::builder()
        .user_agent(concat!("answerable/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::limited(MOST_REDIRECTS))
        .timeout(PATIENCE)
        .build()
        .map_err(failure)?;
    let mut response = client.get(url.clone()).send().await.map_err(failure)?;
    if !response.status().is_success() {
        return Err(Failure::new(format!("{url} answered {}", response.status())));
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failure)? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MOST {
            return Err(too_large(url.as_str()));
        }
    }
    Ok(bytes)
}

fn too_large(source: &str) -> Failure {
    Failure::new(format!("{source} is larger than {} MiB", MOST >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml() {
        for text in [
            "{\"a\": {\"200\": 1.50}}",
            "\u{feff}{\"a\": {\"200\": 1.50}}",
            "a:\n  200: 1.50\n",
            "a: {'200': 1.50}",
        ] {
            let parsed = parse(text).expect("a document");
            assert!(parsed["a"]["200"].is_number(), "{text}: {parsed}");
        }
        for text in ["{", "a: [", "a: *nowhere"] {
            assert!(parse(text).is_err(), "{text}");
        }
        // Names for names for names, which would become very large.
        let mut bomb = "a0: &a0 [x, x]\n".to_owned();
        for n in 1..40 {
            bomb.push_str(&format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}, *a{0}]\n", n - 1));
        }
        assert!(parse(&bomb).is_err());
    }
}
