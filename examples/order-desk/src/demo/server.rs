//! The Answerable server as a process: how it is configured, started, and started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, Url};
use tokio::process::Command;

use super::Trouble;
use super::children::{Process, free_address};
use super::parts::secret;
use super::setup::ModelServer;

const READY_WITHIN: Duration = Duration::from_secs(30);

/// What the server is told: its whole configuration.
pub(super) struct Settings {
    program: PathBuf,
    address: SocketAddr,
    operator_key: String,
    variables: Vec<(&'static str, String)>,
}

impl Settings {
    /// A server on a free port. `program` is where it is if not beside this program.
    pub(super) fn new(
        program: Option<&Path>,
        database_url: String,
        model: &ModelServer,
    ) -> Result<Self, Trouble> {
        let program =
            program.map_or_else(|| beside_this_program("answerable"), |path| Ok(path.to_owned()))?;
        let (address, operator_key) = (free_address()?, secret());
        let variables = vec![
            ("DATABASE_URL", database_url),
            ("ANSWERABLE_LISTEN", address.to_string()),
            ("ANSWERABLE_OPERATOR_KEY", operator_key.clone()),
            ("ANSWERABLE_SECRET_KEY", secret()),
            ("ANSWERABLE_EGRESS_ALLOW", reachable(model)),
            // How long a dead server's runs wait for another: short, so that nobody has to here.
            ("ANSWERABLE_LEASE_MS", "2000".to_owned()),
        ];
        Ok(Self { program, address, operator_key, variables })
    }

    /// The server's base address.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The key that makes tenants.
    pub(super) fn operator_key(&self) -> &str {
        &self.operator_key
    }

    /// Starts the server and waits until it is ready.
    pub(super) async fn start(&self, client: &Client, folder: &Path) -> Result<Process, Trouble> {
        let mut command = Command::new(&self.program);
        // What this terminal has set for another server is not for this one.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ANSWERABLE_") {
                command.env_remove(name);
            }
        }
        command.arg("serve").current_dir(folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut process = Process::start("answerable", command, folder)?;
        process.answers(client, &format!("{}/readyz", self.url()), READY_WITHIN).await?;
        Ok(process)
    }
}

/// A server reaches nothing private unless it is told to. Here the shop and the scripted model
/// are on loopback; a real model may be somewhere else in the house.
fn reachable(model: &ModelServer) -> String {
    let loopback = "127.0.0.0/8".to_owned();
    let url = Url::parse(&model.base_url).ok();
    match url.as_ref().and_then(Url::host_str) {
        Some(host) if !model.scripted => format!("{loopback},{host}"),
        _ => loopback,
    }
}

fn beside_this_program(name: &str) -> Result<PathBuf, Trouble> {
    let this = std::env::current_exe().map_err(|error| Trouble::new(error.to_string()))?;
    let program = this.with_file_name(name);
    if program.is_file() {
        Ok(program)
    } else {
        Err(Trouble::new(format!("{} is missing; `make demo` builds it", program.display())))
    }
}
