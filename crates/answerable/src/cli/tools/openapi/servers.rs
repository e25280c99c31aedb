//! Where an operation is.

use serde_json::Value;
use url::Url;

use super::operation::Place;
use super::{Unmapped, Wanted};

/// A server.
pub(super) struct Base {
    /// What an operation's path is added to, without a slash at its end.
    pub(super) address: String,
    /// Who that is: scheme, host and port.
    pub(super) origin: String,
}

/// Where an operation's server is.
pub(super) fn base(place: &Place<'_>, wanted: &Wanted) -> Result<Base, Unmapped> {
    let text = match &wanted.base_url {
        Some(url) => url.clone(),
        None => {
            let levels = [place.operation(), place.item, place.document.root()];
            let server = levels.into_iter().find_map(|level| level.pointer("/servers/0"));
            server.map_or_else(|| Ok("/".to_owned()), filled)?
        }
    };
    absolute(&text, wanted.source.as_ref())
}

fn absolute(text: &str, source: Option<&Url>) -> Result<Base, Unmapped> {
    let needed = || Unmapped(format!("its server is {text:?}, which is no whole address: give --base-url"));
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            source.and_then(|source| source.join(text).ok()).ok_or_else(needed)?
        }
        Err(_) => return Err(needed()),
    };
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(needed());
    }
    let (address, origin) = (url.as_str().trim_end_matches('/'), url.origin().ascii_serialization());
    Ok(Base { address: address.to_owned(), origin })
}

/// The server's address with its variables' defaults.
fn filled(server: &Value) -> Result<String, Unmapped> {
    let mut text = server.get("url").and_then(Value::as_str).unwrap_or("/").to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        let value = variable.get("default").or_else(|| variable.pointer("/enum/0")).and_then(Value::as_str);
        if let Some(value) = value {
            text = text.replace(&format!("{{{name}}}"), value);
        }
    }
    if text.contains('{') {
        return Err(Unmapped(format!("its server {text:?} has a part without a value: give --base-url")));
    }
    Ok(text)
}
