//! What goes out to a server and must not come back.

use std::collections::BTreeMap;

use answerable_ports::{McpPlace, McpTarget, is_reserved_header};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::StdioCommand;
use super::failure::Failure;
use crate::mask::Mask;

/// Variables of a command whose names have one of these in them hold secrets.
const TELLING: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// The secrets of a server, in every form that it may send back.
pub(super) fn mask(target: &McpTarget, commands: &BTreeMap<String, StdioCommand>) -> Mask {
    match &target.place {
        McpPlace::Url { headers, .. } => {
            let whole = headers.values().map(ExposeSecret::expose_secret);
            // `Bearer KEY`: the key alone is as secret, also where it is no secret of the tenant's store.
            let last = whole.clone().filter_map(|value| Some(value.rsplit_once(' ')?.1));
            let parts = target.secrets.iter().map(ExposeSecret::expose_secret);
            Mask::new(whole.chain(last).chain(parts))
        }
        McpPlace::Stdio { command } => {
            let env = commands.get(command).into_iter().flat_map(|command| &command.env);
            Mask::new(env.filter(|(name, _)| is_secret(name)).map(|(_, value)| value.expose_secret()))
        }
    }
}

fn is_secret(variable: &str) -> bool {
    let name = variable.to_ascii_uppercase();
    TELLING.iter().any(|telling| name.contains(telling))
}

/// The tenant's headers as they are sent.
pub(super) fn headers(wanted: &BTreeMap<String, SecretString>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in wanted {
        let known = HeaderName::try_from(name.as_str());
        let value = HeaderValue::from_str(value.expose_secret());
        if is_reserved_header(name) {
            return Err(Failure::Forbidden(format!("header {name} can't be chosen; nothing was sent")));
        }
        let (Ok(known), Ok(mut value)) = (known, value) else {
            // The value is not repeated: it is a secret.
            return Err(Failure::Forbidden(format!("header {name} can't hold its value; nothing was sent")));
        };
        value.set_sensitive(true);
        headers.insert(known, value);
    }
    Ok(headers)
}
