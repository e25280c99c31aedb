//! The server's configuration: flags, then environment, then `answerable.toml`, then defaults.
//!
//! [`Layers`] finds the text of each setting and remembers where it came from; [`Draft`] reads them all into
//! values; [`Draft::complete`] insists on what a server can't do without. Whatever is unknown, malformed or
//! contradictory is an [`Invalid`]: one line that names the setting as the user wrote it.

mod blobs;
mod database_url;
mod draft;
mod egress;
mod file;
mod kept;
mod layers;
mod mcp_stdio;
mod names;
mod oidc;
mod otel;
mod read;
mod secret_key;
mod shell;
mod unknown;

pub(crate) use draft::url_of;
pub use draft::{Database, Draft, Limits, Log, LogFormat, Retention, ServerConfig};
pub use egress::EgressAllow;
pub use kept::DataFolder;
pub use layers::Layers;
pub use otel::Telemetry;
pub use secret_key::{KeyForm, SecretKey};
pub use shell::Shell;

/// A setting that stops the start; the text is one line for the user and holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub(crate) String);

impl Invalid {
    /// For a reason that concerns a kept file.
    pub(crate) fn in_file(name: &str) -> impl Fn(String) -> Self {
        move |reason| Self(format!("the kept {name} {reason}"))
    }
}
