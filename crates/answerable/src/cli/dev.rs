//! `answerable dev`: a server with a private PostgreSQL and no configuration.

use std::path::Path;
use std::time::Duration;

use answerable_blobs::BlobPlace;
use answerable_devdb::{Options, PrivatePostgres};
use clap::Args;
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::bootstrap::{Access, bootstrap};
use super::flags::{ServerFlags, given};
use super::output::{complain, say};
use super::try_it;
use crate::config::{DataFolder, Database, Draft, EgressAllow, Invalid, Layers, ServerConfig, url_of};
use crate::{Failure, server};

const DATABASE: &str = "answerable";
const MAX_CONNECTIONS: u32 = 100;
/// A start of the private PostgreSQL that takes longer than this is explained.
const UNEXPLAINED: Duration = Duration::from_secs(3);

#[derive(Args)]
#[command(after_help = "\
Needs PostgreSQL 14 or newer on this machine (apt-get install postgresql), but no running server: it \
keeps a private one that listens on a Unix socket only. With DATABASE_URL it uses that database instead. \
Keys are made at the first start and kept in the data folder, unless ANSWERABLE_OPERATOR_KEY and \
ANSWERABLE_SECRET_KEY are set. Outgoing calls may reach this machine (127.0.0.0/8 and ::1). Remove the \
folder to begin anew.")]
pub(crate) struct DevArgs {
    #[command(flatten)]
    flags: ServerFlags,
    /// Folder of the private PostgreSQL and of the keys [env: ANSWERABLE_DATA_DIR] [default: .answerable]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<String>,
    /// Folder of the PostgreSQL binaries [env: ANSWERABLE_PG_BIN] [default: searched for]
    #[arg(long, value_name = "FOLDER")]
    pg_bin: Option<String>,
}

pub(crate) async fn dev(args: DevArgs) -> Result<(), Failure> {
    let mut values = args.flags.values();
    values.extend(given([("data_dir", &args.data_dir), ("pg_bin", &args.pg_bin)]));
    let mut draft = Draft::read(&Layers::read(args.flags.config(), values)?)?;
    let folder = DataFolder::open(&draft.data_dir)?;
    fill_gaps(&mut draft, &folder)?;
    // Before anything slow, so that a port in use is told at once.
    let listener = server::listen(draft.listen).await?;
    let postgres = match draft.database {
        Some(_) => None,
        None => Some(start_postgres(&folder, draft.pg_bin.as_deref()).await?),
    };
    if let Some(postgres) = &postgres {
        draft.database = Some(Database { url: postgres.url(DATABASE).into(), direct_url: None });
    }
    let outcome = run_server(draft.complete()?, listener, &folder, postgres.as_ref()).await;
    let stopped = match postgres {
        Some(postgres) => blocking(move || postgres.stop()).await,
        None => Ok(()),
    };
    outcome.and(stopped)
}

/// Keys that were not given are made once and kept, large files too; this machine itself may be called.
fn fill_gaps(draft: &mut Draft, folder: &DataFolder) -> Result<(), Invalid> {
    if draft.operator_key.is_none() {
        draft.operator_key = Some(folder.key("operator-key")?);
    }
    if draft.secret_key.is_none() {
        let key = folder.key("secret-key")?;
        draft.secret_key = Some(key.expose_secret().parse().map_err(Invalid::in_file("secret-key"))?);
    }
    draft.blobs.get_or_insert_with(|| BlobPlace::Folder(folder.path().join("blobs")));
    let given = std::mem::take(&mut draft.egress_allow);
    draft.egress_allow = EgressAllow::loopback().and(given);
    Ok(())
}

async fn start_postgres(folder: &DataFolder, bin_dir: Option<&Path>) -> Result<PrivatePostgres, Failure> {
    let options = Options {
        data_dir: folder.path().join("postgres"),
        bin_dir: bin_dir.map(Path::to_owned),
        fsync: true,
        max_connections: MAX_CONNECTIONS,
    };
    let starting = blocking(move || {
        let postgres = PrivatePostgres::start(options)?;
        postgres.create_database(DATABASE)?;
        Ok(postgres)
    });
    tokio::pin!(starting);
    match tokio::time::timeout(UNEXPLAINED, &mut starting).await {
        Ok(started) => started,
        Err(_) => {
            let place = folder.path().display();
            complain(&format!("answerable: waiting for the private PostgreSQL in {place}"));
            starting.await
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, answerable_devdb::Error> + Send + 'static,
) -> Result<T, Failure> {
    spawn_blocking(work).await.map_err(Failure::new)?.map_err(Failure::new)
}

/// Runs the server until it has drained, greeting once it takes work.
async fn run_server(
    config: ServerConfig,
    listener: TcpListener,
    folder: &DataFolder,
    postgres: Option<&PrivatePostgres>,
) -> Result<(), Failure> {
    let operator_key = config.operator_key.clone();
    let (sender, ready) = oneshot::channel();
    let greeting = async {
        if let Ok(address) = ready.await {
            let base = url_of(address)?;
            let access = bootstrap(&base, &operator_key, folder).await?;
            greet(base.as_str().trim_end_matches('/'), &access, folder, postgres)?;
        }
        // Whether all is well from here on is the server's to say.
        std::future::pending::<Result<(), Failure>>().await
    };
    tokio::select! {
        ended = server::run(config, listener, sender) => ended,
        failed = greeting => failed,
        failed = watch(postgres) => failed,
    }
}

/// Returns when the private PostgreSQL has ended by itself.
async fn watch(postgres: Option<&PrivatePostgres>) -> Result<(), Failure> {
    let Some(postgres) = postgres else { return std::future::pending().await };
    while postgres.is_running() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(Failure::new(format!("the private PostgreSQL has ended by itself; see {}", postgres.log().display())))
}

fn greet(
    base: &str,
    access: &Access,
    folder: &DataFolder,
    postgres: Option<&PrivatePostgres>,
) -> Result<(), Failure> {
    let key = access.api_key.expose_secret();
    say(&format!("\nAnswerable listens on {base}"))?;
    say(&format!("  API key   {key}  (scope admin, tenant {})", access.tenant_id))?;
    say(&format!("  keys      {}", folder.path().display()))?;
    if let Some(postgres) = postgres {
        say(&format!("  database  {}", postgres.data_dir().display()))?;
    }
    say("\nTry it:\n")?;
    try_it::lines(base, key).iter().try_for_each(|line| say(line))?;
    say("\nCtrl-C stops it; the data stays.")
}
