//! The other parts of the scenery: PostgreSQL, the shop, the model.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use answerable_devdb::{Options as DatabaseOptions, PrivatePostgres};
use reqwest::Client;
use tempfile::TempDir;
use tokio::process::Command;
use uuid::Uuid;

use super::children::{Process, free_address};
use super::setup::ModelServer;
use super::{Options, Trouble};

const READY_WITHIN: Duration = Duration::from_secs(30);

/// A private PostgreSQL and the folder that it alone uses, since as root it runs as another
/// account. Dropped in this order.
pub(super) struct Database {
    pub(super) postgres: PrivatePostgres,
    _folder: TempDir,
}

/// Starts a PostgreSQL with a database for the server and one for the shop.
pub(super) async fn database() -> Result<Database, Trouble> {
    // One blocking piece of work: were the demo interrupted meanwhile, server and folder would
    // still go in order.
    let started = tokio::task::spawn_blocking(|| {
        let folder = folder("order-desk-postgres-")?;
        let data_dir = folder.path().to_owned();
        let options = DatabaseOptions { data_dir, bin_dir: None, fsync: true, max_connections: 100 };
        let started = PrivatePostgres::start(options).and_then(|postgres| {
            postgres.create_database("answerable")?;
            postgres.create_database("shop")?;
            Ok(postgres)
        });
        let postgres = started.map_err(|error| Trouble::new(format!("PostgreSQL: {error}")))?;
        Ok(Database { postgres, _folder: folder })
    });
    started.await.map_err(|error| Trouble::new(error.to_string()))?
}

/// The shop as a process, and how to call it.
pub(super) struct ShopServer {
    pub(super) url: String,
    pub(super) token: String,
    pub(super) process: Process,
}

/// Opens the shop.
pub(super) async fn shop(
    client: &Client,
    folder: &Path,
    database_url: String,
) -> Result<ShopServer, Trouble> {
    let (address, token) = (free_address()?, secret());
    let mut command = this_program("shop", address)?;
    // The worst kind of shop: it makes a second order whenever it is asked twice.
    command.args(["--idempotency", "ignore"]);
    command.env("SHOP_DATABASE_URL", database_url).env("SHOP_TOKEN", &token);
    let mut process = Process::start("shop", command, folder)?;
    process.answers(client, &format!("http://{address}/healthz"), READY_WITHIN).await?;
    Ok(ShopServer { url: format!("http://{address}"), token, process })
}

/// Starts the scripted model.
pub(super) async fn scripted_model(
    client: &Client,
    folder: &Path,
) -> Result<(ModelServer, Process), Trouble> {
    let (address, api_key) = (free_address()?, secret());
    let mut command = this_program("model", address)?;
    command.env("MODEL_API_KEY", &api_key);
    let mut process = Process::start("model", command, folder)?;
    process.answers(client, &format!("http://{address}/healthz"), READY_WITHIN).await?;
    let base_url = format!("http://{address}/v1");
    Ok((ModelServer { base_url, api_key, model: "scripted-clerk".into(), scripted: true }, process))
}

/// The model server that the environment names.
pub(super) fn real_model(options: &Options, api_key: &str) -> ModelServer {
    ModelServer {
        base_url: options.openai_base_url.trim_end_matches('/').to_owned(),
        api_key: api_key.to_owned(),
        model: options.openai_model.clone(),
        scripted: false,
    }
}

fn this_program(subcommand: &str, address: SocketAddr) -> Result<Command, Trouble> {
    let program = std::env::current_exe().map_err(|error| Trouble::new(error.to_string()))?;
    let mut command = Command::new(program);
    command.args([subcommand, "--exit-with-parent", "--listen", &address.to_string()]);
    Ok(command)
}

/// A folder of the demo's own, gone when it ends.
pub(super) fn folder(prefix: &str) -> Result<TempDir, Trouble> {
    TempDir::with_prefix(prefix).map_err(|error| Trouble::new(format!("a temporary folder: {error}")))
}

/// A new random secret: 64 hexadecimal digits.
pub(super) fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}
