//! `answerable serve`.

use clap::Args;
use tokio::sync::oneshot;

use super::flags::ServerFlags;
use crate::config::{Draft, Layers};
use crate::{Failure, server};

#[derive(Args)]
#[command(after_help = "\
Keys come from the environment or from answerable.toml:
  ANSWERABLE_OPERATOR_KEY  key for /v1/tenants, at least 16 characters (openssl rand -hex 24)
  ANSWERABLE_SECRET_KEY    encrypts stored secrets: 32 bytes as hex or base64 (openssl rand
                           -hex 32), or a passphrase of at least 32 characters, which is
                           hashed with SHA-256

OpenTelemetry's variables say where spans and metrics go, as in
OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318; without them nothing is exported, and /metrics
can be read all the same.

While the database is away, requests are answered with 503. SIGTERM drains the server: running
steps finish or are handed to other servers, and no run fails.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    flags: ServerFlags,
}

pub(crate) async fn serve(args: ServeArgs) -> Result<(), Failure> {
    let config = Draft::read(&Layers::read(args.flags.config(), args.flags.values())?)?.complete()?;
    let listener = server::listen(config.listen).await?;
    server::run(config, listener, oneshot::channel().0).await
}
