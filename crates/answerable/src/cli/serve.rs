//! `answerable serve`, and the server itself.

use std::net::SocketAddr;

use clap::Args;
use tokio::sync::oneshot;

use super::flags::ServerFlags;
use crate::Failure;
use crate::config::{Database, Log, ServerConfig};

#[derive(Args)]
#[command(after_help = "\
Keys come from the environment or from answerable.toml:
  ANSWERABLE_OPERATOR_KEY  key for /v1/tenants, at least 16 characters (openssl rand -hex 24)
  ANSWERABLE_SECRET_KEY    encrypts stored secrets: 32 bytes as hex or base64 (openssl rand
                           -hex 32), or a passphrase of at least 32 characters, which is
                           hashed with SHA-256

OTEL_* variables are used as OpenTelemetry defines them. SIGTERM drains the server: running steps
finish or are handed to other servers, and no run fails.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) flags: ServerFlags,
}

/// For a server whose start nobody waits for.
pub(crate) fn nobody_waits() -> oneshot::Sender<SocketAddr> {
    oneshot::channel().0
}

/// Runs a server until SIGTERM or SIGINT, drains it, and returns. `ready` gets the address that it listens on as soon as
/// it takes requests; sending to nobody is no error.
pub(crate) async fn serve(config: ServerConfig, ready: oneshot::Sender<SocketAddr>) -> Result<(), Failure> {
    crate::server::run(config, ready).await
}

/// Brings the database up to this version's schema, over its direct URL.
pub(crate) async fn migrate_database(database: &Database, log: &Log) -> Result<(), Failure> {
    crate::server::migrate_database(database, log).await
}
