//! A server for the cases alone: begun before the first, gone after the last, and its database with it.

use std::path::Path;
use std::time::Duration;

use answerable_devdb::{Options, PrivatePostgres};
use secrecy::SecretString;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::cli::remote::Api;
use crate::config::{Database, Draft, EgressAllow, Layers, SecretKey, url_of};
use crate::{Failure, server};

const DATABASE: &str = "answerable";
const MAX_CONNECTIONS: u32 = 60;
const DRAIN: Duration = Duration::from_millis(500);

/// The server, its database, and the folder that both are in.
#[derive(Debug)]
pub(super) struct LocalServer {
    /// The operator's client.
    pub(super) operator: Api,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Failure>>,
    postgres: PrivatePostgres,
    folder: TempDir,
}

impl LocalServer {
    /// Starts a database in a temporary folder and a server on it, on a free port. What was set for other servers is not
    /// looked at, but for the log, the addresses that may be called, and where PostgreSQL is.
    pub(super) async fn start() -> Result<Self, Failure> {
        let layers = Layers::read(None, Vec::new())?;
        let mut draft = Draft::read(&layers)?;
        draft.log.filter =
            layers.get("log", |text| Ok(text.to_owned()))?.unwrap_or_else(|| "error".to_owned());
        let folder = tempfile::Builder::new().prefix("answerable-eval-").tempdir().map_err(Failure::new)?;
        let options = Options {
            data_dir: folder.path().to_owned(),
            bin_dir: draft.pg_bin.clone(),
            fsync: false,
            max_connections: MAX_CONNECTIONS,
        };
        let postgres = blocking(move || {
            let postgres = PrivatePostgres::start(options)?;
            postgres.create_database(DATABASE)?;
            Ok(postgres)
        })
        .await?;
        let keys = (key()?, key()?);
        let listener = server::listen(([127, 0, 0, 1], 0).into()).await?;
        let address = listener.local_addr().map_err(Failure::new)?;
        draft.database = Some(Database { url: postgres.url(DATABASE).into(), direct_url: None });
        draft.operator_key = Some(keys.0.clone().into());
        draft.secret_key = Some(keys.1.parse::<SecretKey>().map_err(Failure::new)?);
        draft.listen = address;
        draft.public_url = url_of(address)?;
        let allowed = std::mem::take(&mut draft.egress_allow);
        draft.egress_allow = EgressAllow::loopback().and(allowed);
        draft.limits.drain = DRAIN;
        let (stop, (sender, ready)) = (CancellationToken::new(), oneshot::channel());
        let running = tokio::spawn(server::run_until(draft.complete()?, listener, sender, stop.clone()));
        if ready.await.is_err() {
            running.await.map_err(Failure::new)??;
            return Err(Failure::new("the server ended before it was ready"));
        }
        let operator = Api::new(&url_of(address)?, SecretString::from(keys.0))?;
        Ok(Self { operator, stop, running, postgres, folder })
    }

    /// Stops the server and takes everything of it away.
    pub(super) async fn end(self) -> Result<(), Failure> {
        self.stop.cancel();
        let served = self.running.await.map_err(Failure::new)?;
        let data = self.postgres.data_dir().to_owned();
        blocking(move || self.postgres.stop()).await?;
        self.folder.close().map_err(Failure::new)?;
        remove_relocated(&data).map_err(Failure::new)?;
        served
    }
}

/// As root the data lies elsewhere where PostgreSQL's account can't enter the temporary folder; there it stands alone in a
/// folder that says what it was made for.
fn remove_relocated(data: &Path) -> std::io::Result<()> {
    match data.parent().filter(|place| data.exists() && place.join("made-for").exists()) {
        Some(place) => std::fs::remove_dir_all(place),
        None => Ok(()),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, answerable_devdb::Error> + Send + 'static,
) -> Result<T, Failure> {
    spawn_blocking(work).await.map_err(Failure::new)?.map_err(Failure::new)
}

/// A random key: 64 hexadecimal digits.
fn key() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(format!("no random bytes to be had: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
