//! Reading single values. Each error is a reason that follows the setting's name.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use secrecy::SecretString;
use tracing_subscriber::EnvFilter;
use url::Url;

/// Fewest characters of the operator key.
const SHORTEST_OPERATOR_KEY: usize = 16;

pub(crate) fn whole(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let reason =
        || format!("is {text:?}, and a whole number from {} to {} is needed", range.start(), range.end());
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(reason)
}

pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| format!("is {text:?}, and an address like 127.0.0.1:8080 is needed"))?;
    match address.port() {
        0 => Err("has port 0: name the port".to_owned()),
        _ => Ok(address),
    }
}

pub(crate) fn public_url(text: &str) -> Result<Url, String> {
    let reason = |what: &str| format!("is {text:?}, {what}");
    let url = Url::parse(text).map_err(|_| reason("and a URL like https://answerable.example is needed"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(reason("and an http or https URL is needed"));
    }
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(reason("and it may not have a query, a fragment or a user"));
    }
    Ok(url)
}

pub(crate) fn operator_key(text: &str) -> Result<SecretString, String> {
    if text.len() < SHORTEST_OPERATOR_KEY {
        return Err(format!(
            "is too short: at least {SHORTEST_OPERATOR_KEY} characters (openssl rand -hex 24)"
        ));
    }
    match text.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(text.into()),
        false => Err("may hold only printable ASCII characters without spaces".to_owned()),
    }
}

pub(crate) fn log_filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|_| format!("is {text:?}, and a filter like info or info,answerable_engine=debug is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(whole("500", 500..=600), Ok(500));
        for text in ["499", "601", "-1", "5e2", "", "5 00"] {
            assert!(whole(text, 500..=600).expect_err(text).contains("from 500 to 600"));
        }
    }

    #[test]
    fn addresses_have_a_port() {
        listen("[::1]:80").expect("IPv6");
        for text in ["localhost:80", "127.0.0.1", ":80", "127.0.0.1:0", "127.0.0.1:99999"] {
            listen(text).expect_err(text);
        }
    }

    #[test]
    fn the_public_url_is_a_plain_base() {
        public_url("https://a.example/base").expect("with a path");
        for text in ["a.example", "ftp://a", "https://a/?x", "https://u:p@a/", "https://a/#x", "mailto:x"] {
            public_url(text).expect_err(text);
        }
    }

    #[test]
    fn operator_keys_fit_a_header() {
        operator_key("0123456789abcdef").expect("16 characters");
        for text in ["0123456789abcde", "0123456789 abcdef", "0123456789abcdéf"] {
            operator_key(text).expect_err(text);
        }
    }

    #[test]
    fn filters_are_tried() {
        log_filter("warn,answerable=debug").expect("valid");
        log_filter("answerable=loud").expect_err("no such level");
    }
}
