//! What goes out to a server and must not come back.

use std::collections::BTreeMap;

use answerable_ports::{McpPlace, McpTarget};
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
        McpPlace::Url { headers, .. } => Mask::new(headers.values().flat_map(|value| {
            let whole = value.expose_secret();
            // `Bearer KEY`: the key alone is as secret.
            [Some(whole), whole.rsplit_once(' ').map(|(_, key)| key)].into_iter().flatten()
        })),
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

/// Headers that are the protocol's, the trace's or the connection's own.
const RESERVED: [&str; 12] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
    "transfer-encoding",
];

/// The tenant's headers as they are sent.
pub(super) fn headers(wanted: &BTreeMap<String, SecretString>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in wanted {
        let known = HeaderName::try_from(name.as_str());
        let value = HeaderValue::from_str(value.expose_secret());
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
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
