//! All settings as values, first with gaps, then complete.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use answerable_blobs::BlobPlace;
use answerable_identity::IssuerConfig;
use answerable_tools::StdioCommand;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::{
    EgressAllow, Invalid, Layers, SecretKey, Shell, Telemetry, blobs, database_url, oidc, otel, read,
    secret_key, shell,
};

/// Where runs, journals and everything else are kept.
#[derive(Clone, Debug)]
pub struct Database {
    /// Connection URL; may lead through PgBouncer in transaction mode.
    pub url: SecretString,
    /// Connection URL past PgBouncer, for migrations and for the listener, if it differs from `url`.
    pub direct_url: Option<SecretString>,
}

impl Database {
    /// The URL for what needs a session of its own: migrations and LISTEN.
    #[must_use]
    pub fn direct(&self) -> &SecretString {
        self.direct_url.as_ref().unwrap_or(&self.url)
    }
}

/// Bounds on what one server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a run belongs to a server that is not heard of.
    pub lease: Duration,
    /// Most runs that this server works on at a time.
    pub max_running: usize,
    /// How long running steps may take to finish after SIGTERM.
    pub drain: Duration,
    /// Longest request body, in bytes.
    pub max_body_bytes: usize,
    /// Most requests that are dealt with at a time.
    pub max_requests: usize,
    /// Most event streams that are open at a time.
    pub max_streams: usize,
    /// Most connections of one address at a time; `None`: as many as of all.
    pub max_connections_per_address: Option<usize>,
}

/// How long what has ended is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Journals of ended runs and settled deliveries, in days.
    pub journal_days: u16,
    /// Ended runs, in days; `None`: until somebody deletes them.
    pub runs_days: Option<u16>,
}

/// What is logged, and how. The log goes to standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Directives of `tracing_subscriber::EnvFilter`, checked already.
    pub filter: String,
    /// The form of a line.
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Everything a server needs to know.
#[derive(Debug)]
pub struct ServerConfig {
    /// Where it keeps everything.
    pub database: Database,
    /// Key for `/v1/tenants…`.
    pub operator_key: SecretString,
    /// Key that encrypts stored secrets.
    pub secret_key: SecretKey,
    /// Keys that stored secrets may be encrypted with, too.
    pub other_secret_keys: Vec<SecretKey>,
    /// Address that it listens on.
    pub listen: SocketAddr,
    /// Base of the links that it gives out.
    pub public_url: Url,
    /// Private addresses that outgoing calls may reach.
    pub egress_allow: EgressAllow,
    /// Who vouches for people, if anybody does.
    pub oidc: Option<IssuerConfig>,
    /// Bounds on what it does.
    pub limits: Limits,
    /// Where the contents of large files are kept.
    pub blobs: BlobPlace,
    /// Commands of shell tools.
    pub shell: Shell,
    /// Commands that tenants may name as their MCP servers.
    pub mcp_stdio: BTreeMap<String, StdioCommand>,
    /// How long what has ended is kept.
    pub retention: Retention,
    /// What it exports.
    pub telemetry: Telemetry,
    /// Its log.
    pub log: Log,
}

/// The settings as they were given; what has no default may be missing.
#[derive(Debug)]
pub struct Draft {
    /// See [`ServerConfig::database`].
    pub database: Option<Database>,
    /// See [`ServerConfig::operator_key`].
    pub operator_key: Option<SecretString>,
    /// See [`ServerConfig::secret_key`].
    pub secret_key: Option<SecretKey>,
    /// See [`ServerConfig::other_secret_keys`].
    pub other_secret_keys: Vec<SecretKey>,
    /// See [`ServerConfig::listen`].
    pub listen: SocketAddr,
    /// See [`ServerConfig::public_url`].
    pub public_url: Url,
    /// See [`ServerConfig::egress_allow`].
    pub egress_allow: EgressAllow,
    /// See [`ServerConfig::oidc`].
    pub oidc: Option<IssuerConfig>,
    /// See [`ServerConfig::limits`].
    pub limits: Limits,
    /// See [`ServerConfig::blobs`].
    pub blobs: Option<BlobPlace>,
    /// See [`ServerConfig::shell`].
    pub shell: Shell,
    /// See [`ServerConfig::mcp_stdio`].
    pub mcp_stdio: BTreeMap<String, StdioCommand>,
    /// See [`ServerConfig::retention`].
    pub retention: Retention,
    /// See [`ServerConfig::telemetry`].
    pub telemetry: Telemetry,
    /// See [`ServerConfig::log`].
    pub log: Log,
    /// Where `dev` keeps keys and its private PostgreSQL.
    pub data_dir: PathBuf,
    /// Folder of the PostgreSQL binaries for `dev`.
    pub pg_bin: Option<PathBuf>,
}

impl Draft {
    /// Reads all settings out of their layers.
    ///
    /// # Errors
    /// Values that are malformed or contradict one another.
    pub fn read(layers: &Layers) -> Result<Self, Invalid> {
        let listen = layers.get("listen", read::listen)?.unwrap_or(DEFAULT_LISTEN);
        refuse_contradictions(layers)?;
        Ok(Self {
            database: database(layers)?,
            operator_key: layers.get("operator_key", read::operator_key)?,
            secret_key: layers.get("secret_key", str::parse)?,
            other_secret_keys: layers.get("other_secret_keys", secret_key::list)?.unwrap_or_default(),
            listen,
            public_url: match layers.get("public_url", read::public_url)? {
                Some(url) => url,
                None => url_of(listen)?,
            },
            egress_allow: layers.get("egress_allow", str::parse)?.unwrap_or_default(),
            oidc: oidc::issuer(layers)?,
            limits: limits(layers)?,
            blobs: blobs::place(layers)?,
            shell: shell::shell(layers)?,
            mcp_stdio: layers.mcp_stdio().clone(),
            retention: retention(layers)?,
            telemetry: telemetry(layers)?,
            log: log(layers)?,
            data_dir: layers.get("data_dir", as_path)?.unwrap_or_else(|| PathBuf::from(".answerable")),
            pg_bin: layers.get("pg_bin", as_path)?,
        })
    }

    /// The database, for a command that needs nothing else.
    ///
    /// # Errors
    /// There is none.
    pub fn required_database(&self) -> Result<Database, Invalid> {
        self.database.clone().ok_or_else(|| missing("DATABASE_URL", "postgres://user:password@host/database"))
    }

    /// The keys of stored secrets, for a command that needs no other: the one that encrypts, and those that only open.
    ///
    /// # Errors
    /// There is none that encrypts.
    pub fn required_secret_keys(&mut self) -> Result<(SecretKey, Vec<SecretKey>), Invalid> {
        let key = self.secret_key.take().ok_or_else(|| {
            missing(
                "ANSWERABLE_SECRET_KEY",
                "32 bytes as hex or base64, or a passphrase of at least 32 characters",
            )
        })?;
        Ok((key, std::mem::take(&mut self.other_secret_keys)))
    }

    /// The configuration of a server.
    ///
    /// # Errors
    /// The first setting that is missing and has no default.
    pub fn complete(mut self) -> Result<ServerConfig, Invalid> {
        let database = self.required_database()?;
        let operator_key = self.operator_key.take().ok_or_else(|| {
            missing("ANSWERABLE_OPERATOR_KEY", "the key for /v1/tenants, at least 16 characters")
        })?;
        let (secret_key, other_secret_keys) = self.required_secret_keys()?;
        Ok(ServerConfig {
            database,
            operator_key,
            secret_key,
            other_secret_keys,
            listen: self.listen,
            public_url: self.public_url,
            egress_allow: self.egress_allow,
            oidc: self.oidc,
            limits: self.limits,
            blobs: self.blobs.unwrap_or_else(|| BlobPlace::Folder(DEFAULT_BLOBS.into())),
            shell: self.shell,
            mcp_stdio: self.mcp_stdio,
            retention: self.retention,
            telemetry: self.telemetry,
            log: self.log,
        })
    }
}

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// In the folder that the server runs in.
const DEFAULT_BLOBS: &str = "answerable-blobs";
const MIB: u64 = 1 << 20;
const DEFAULT_JOURNAL_DAYS: u16 = 30;
const MOST_BACKLOG: u64 = 100_000_000;
/// Ten years. Whoever keeps things longer keeps them for good.
const MAX_DAYS: u64 = 3650;

/// The URL at which a server that listens on `address` is reached from its own machine.
pub(crate) fn url_of(address: SocketAddr) -> Result<Url, Invalid> {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let address = SocketAddr::new(ip, address.port());
    Url::parse(&format!("http://{address}")).map_err(|e| Invalid(format!("no URL for {address}: {e}")))
}

fn missing(name: &str, what: &str) -> Invalid {
    Invalid(format!("{name} is not set: {what} (`answerable dev` needs none)"))
}

fn database(layers: &Layers) -> Result<Option<Database>, Invalid> {
    let url = layers.get("database_url", database_url::read)?;
    let direct_url = layers.get("database_direct_url", database_url::read)?;
    match (url, direct_url) {
        (None, Some(_)) => {
            Err(Invalid(format!("{} is set and DATABASE_URL is not", layers.place("database_direct_url"))))
        }
        (url, direct_url) => Ok(url.map(|url| Database { url, direct_url })),
    }
}

fn refuse_contradictions(layers: &Layers) -> Result<(), Invalid> {
    let plain = |text: &str| Ok(SecretString::from(text));
    let operator = layers.get("operator_key", plain)?;
    let secret = layers.get("secret_key", plain)?;
    let others = layers.get("other_secret_keys", plain)?;
    let Some(operator) = operator else { return Ok(()) };
    let is_same = |text: &str| text.trim() == operator.expose_secret();
    let same =
        [("secret_key", secret), ("other_secret_keys", others)].into_iter().find_map(|(name, text)| {
            text.is_some_and(|text| text.expose_secret().split(',').any(is_same)).then_some(name)
        });
    match same {
        Some(name) => Err(Invalid(format!(
            "{} and {} are the same: whoever holds the one would hold the other",
            layers.place("operator_key"),
            layers.place(name)
        ))),
        None => Ok(()),
    }
}

fn limits(layers: &Layers) -> Result<Limits, Invalid> {
    let whole = |name, range, default: u64| {
        layers.get(name, |text| read::whole(text, range)).map(|number| number.unwrap_or(default))
    };
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Limits {
        lease: Duration::from_millis(whole("lease_ms", 500..=600_000, 10_000)?),
        max_running: size(whole("max_running", 1..=100_000, 500)?),
        drain: Duration::from_millis(whole("drain_ms", 0..=3_600_000, 20_000)?),
        max_body_bytes: size(whole("max_body_bytes", 1024..=256 * MIB, 4 * MIB)?),
        max_requests: size(whole("max_requests", 8..=100_000, 512)?),
        max_streams: size(whole("max_streams", 8..=1_000_000, 16_000)?),
        max_connections_per_address: layers
            .get("max_connections_per_address", |text| read::whole(text, 1..=1_000_000))?
            .map(size),
    })
}

fn retention(layers: &Layers) -> Result<Retention, Invalid> {
    let days = |name| {
        let days = layers.get(name, |text| read::whole(text, 1..=MAX_DAYS))?;
        Ok(days.and_then(|days| u16::try_from(days).ok()))
    };
    Ok(Retention {
        journal_days: days("keep_journal_days")?.unwrap_or(DEFAULT_JOURNAL_DAYS),
        runs_days: days("keep_runs_days")?,
    })
}

fn telemetry(layers: &Layers) -> Result<Telemetry, Invalid> {
    let backlog = layers.get("trace_backlog", |text| read::whole(text, 1..=MOST_BACKLOG))?;
    otel::telemetry(&|name| layers.otel(name), backlog.unwrap_or(otel::DEFAULT_BACKLOG))
}

fn log(layers: &Layers) -> Result<Log, Invalid> {
    let format = layers.get("log_format", |text| match text {
        "pretty" => Ok(LogFormat::Pretty),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("is {text:?}, and pretty or json is needed")),
    })?;
    Ok(Log {
        filter: layers.get("log", read::log_filter)?.unwrap_or_else(|| "info".to_owned()),
        format: format.unwrap_or(LogFormat::Pretty),
    })
}

fn as_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(PathBuf::from(text)) }
}

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
