//! Servers on a database of their own.

use std::path::{Path, PathBuf};

use answerable_devdb::{Options, PrivatePostgres};
use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Client, Model, Result, Server, Tenant};

const DATABASE: &str = "load";

/// Where a load is played: the same for all of them.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The program; else the one beside this.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Servers that share the database.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
    /// Committed data need not survive a crash of the machine: for slow disks that are not to be measured.
    #[arg(long)]
    no_fsync: bool,
    /// Where logs are kept; else in a temporary folder, which goes.
    #[arg(long)]
    logs: Option<PathBuf>,
}

/// All that runs. Dropped, it is gone.
#[derive(Debug)]
pub struct Stage {
    /// The servers.
    pub servers: Vec<Server>,
    /// A client with the operator's key, at the first of them.
    pub operator: Client,
    // Dropped after the servers, in this order.
    _postgres: PrivatePostgres,
    _folder: tempfile::TempDir,
}

impl Stage {
    /// Starts PostgreSQL and the servers, with these settings beside the needed ones; returns when all are ready.
    ///
    /// # Errors
    /// Something doesn't start.
    pub async fn open(place: &Place, more: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let postgres = PrivatePostgres::start(Options {
            data_dir: folder.path().join("postgres"),
            bin_dir: None,
            fsync: !place.no_fsync,
            max_connections: 300,
        })?;
        postgres.create_database(DATABASE)?;
        let logs = place.logs.clone().unwrap_or_else(|| folder.path().join("logs"));
        std::fs::create_dir_all(&logs)?;
        let program = place.program.clone().map_or_else(beside_this, Ok)?;
        let operator_key = format!("operator-{}", Uuid::new_v4().simple());
        let settings = settings(&postgres.url(DATABASE), &operator_key, folder.path(), more);
        let mut servers = Vec::new();
        for number in 0..place.servers {
            // One after another: the first of them migrates.
            let mut server = Server::spawn(&program, &settings, &logs.join(format!("server-{number}.log")))?;
            server.ready().await?;
            servers.push(server);
        }
        let first = servers.first().ok_or("no server")?;
        let operator = Client::new(first.url(), &operator_key)?;
        Ok(Self { servers, operator, _postgres: postgres, _folder: folder })
    }

    /// A tenant whose provider `main` is this model.
    ///
    /// # Errors
    /// A server refuses that.
    pub async fn tenant(&self, name: &str, quotas: Value, model: &Model) -> Result<Tenant> {
        let tenant = self.operator.post("/v1/tenants", &json!({"name": name, "quotas": quotas})).await?;
        let id = tenant["id"].as_str().ok_or("a tenant without an id")?.to_owned();
        let body = json!({"name": "load", "scopes": ["admin"]});
        let key = self.operator.post(&format!("/v1/tenants/{id}/keys"), &body).await?;
        let client = self.operator.with_key(key["secret"].as_str().ok_or("a key without a secret")?);
        let provider = json!({"kind": "openai_chat", "base_url": model.base_url(), "api_key": "sk-load"});
        client.put("/v1/providers/main", &provider).await?;
        Ok(Tenant { id, client })
    }
}

fn beside_this() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let program = this.parent().ok_or("this program is in no folder")?.join("answerable");
    if program.is_file() { Ok(program) } else { Err(format!("{} is not built", program.display()).into()) }
}

fn settings(
    database_url: &str,
    operator_key: &str,
    folder: &Path,
    more: &[(&str, &str)],
) -> Vec<(String, String)> {
    let secret_key = Uuid::new_v4().simple().to_string() + &Uuid::new_v4().simple().to_string();
    let blobs = format!("file://{}", folder.join("blobs").display());
    let needed = [
        ("DATABASE_URL", database_url),
        ("ANSWERABLE_OPERATOR_KEY", operator_key),
        ("ANSWERABLE_SECRET_KEY", &secret_key),
        ("ANSWERABLE_EGRESS_ALLOW", "127.0.0.0/8"),
        ("ANSWERABLE_BLOBS", &blobs),
    ];
    needed.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
