//! The flags of the commands that run a server. Each is a setting; which layer wins is not decided here.

use std::path::{Path, PathBuf};

use clap::Args;

/// What `migrate` needs.
#[derive(Args, Default)]
pub(crate) struct DatabaseFlags {
    /// Read settings from FILE; otherwise from answerable.toml in the working folder, if it is there.
    /// Its keys are the variables' names in lower case without ANSWERABLE_, as in `lease_ms = 10000`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// PostgreSQL to use, postgres://user:password@host/database; may lead through PgBouncer in transaction
    /// mode [env: DATABASE_URL]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// The same database past PgBouncer, for migrations and notifications [env: ANSWERABLE_DATABASE_DIRECT_URL]
    #[arg(long, value_name = "URL")]
    database_direct_url: Option<String>,
    /// What to log, such as info or info,answerable_engine=debug [env: ANSWERABLE_LOG] [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Form of a log line, pretty or json [env: ANSWERABLE_LOG_FORMAT] [default: pretty]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

/// What `prune`, `serve` and `dev` need to know of what is old.
#[derive(Args, Default)]
pub(crate) struct RetentionFlags {
    /// How long journals of ended runs and settled webhook deliveries are kept, in days, 1 to 3650
    /// [env: ANSWERABLE_KEEP_JOURNAL_DAYS] [default: 30]
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true)]
    keep_journal_days: Option<String>,
    /// How long ended runs are kept, in days, 1 to 3650 [env: ANSWERABLE_KEEP_RUNS_DAYS]
    /// [default: until somebody deletes them]
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true)]
    keep_runs_days: Option<String>,
}

/// Who vouches for people, for `serve` and `dev`.
#[derive(Args, Default)]
pub(crate) struct OidcFlags {
    /// OpenID Connect provider whose tokens people may bring instead of a key [env: ANSWERABLE_OIDC_ISSUER]
    /// [default: none]
    #[arg(long, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// Whom its tokens must be meant for (`aud`) [env: ANSWERABLE_OIDC_AUDIENCE]
    #[arg(long, value_name = "NAME")]
    oidc_audience: Option<String>,
    /// Where its keys are [env: ANSWERABLE_OIDC_JWKS_URL] [default: as its configuration says]
    #[arg(long, value_name = "URL")]
    oidc_jwks_url: Option<String>,
    /// Claim that holds the tenant's id [env: ANSWERABLE_OIDC_TENANT_CLAIM] [default: answerable_tenant]
    #[arg(long, value_name = "CLAIM")]
    oidc_tenant_claim: Option<String>,
    /// Claim that holds the scopes, as a list or with spaces between them [env: ANSWERABLE_OIDC_SCOPES_CLAIM]
    /// [default: answerable_scopes]
    #[arg(long, value_name = "CLAIM")]
    oidc_scopes_claim: Option<String>,
    /// Claim that holds the name under which people act; one that they can't choose
    /// [env: ANSWERABLE_OIDC_USER_CLAIM] [default: email]
    #[arg(long, value_name = "CLAIM")]
    oidc_user_claim: Option<String>,
}

/// What `serve` and `dev` need besides. Keys have no flags: a command line is seen by every process.
#[derive(Args, Default)]
pub(crate) struct ServerFlags {
    #[command(flatten)]
    database: DatabaseFlags,
    /// Address to listen on [env: ANSWERABLE_LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Base of links given out, such as an approval's [env: ANSWERABLE_PUBLIC_URL] [default: http://ADDRESS]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Private networks and hosts that outgoing calls may reach, with commas between them
    /// [env: ANSWERABLE_EGRESS_ALLOW] [default: none; `dev` always allows this machine]
    #[arg(long, value_name = "LIST")]
    egress_allow: Option<String>,
    /// Where the contents of large files are kept: file:///folder, which all servers share, or s3://bucket/prefix, reached
    /// as the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and the like say
    /// [env: ANSWERABLE_BLOBS] [default: ./answerable-blobs; `dev`: in its data folder]
    #[arg(long, value_name = "PLACE")]
    blobs: Option<String>,
    /// Whether commands of shell tools are run, true or false; they are only where bubblewrap can confine them
    /// [env: ANSWERABLE_SHELL] [default: true]
    #[arg(long, value_name = "BOOL")]
    shell: Option<String>,
    /// Whether agents may let commands reach the network, true or false: all that this machine reaches, past the
    /// guard of outgoing calls [env: ANSWERABLE_SHELL_NETWORK] [default: false]
    #[arg(long, value_name = "BOOL")]
    shell_network: Option<String>,
    /// Most commands that run at once [env: ANSWERABLE_SHELL_AT_ONCE] [default: 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    shell_at_once: Option<String>,
    /// Most memory that an agent may give a command, in MiB, 16 to 16384 [env: ANSWERABLE_SHELL_MEMORY_MB]
    /// [default: 1024]
    #[arg(long, value_name = "MIB", allow_negative_numbers = true)]
    shell_memory_mb: Option<String>,
    /// Folder for the copies of workspaces that commands work on [env: ANSWERABLE_SHELL_DIR]
    /// [default: the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    shell_dir: Option<String>,
    /// How long a run belongs to a server that is not heard of, in milliseconds, 500 to 600000
    /// [env: ANSWERABLE_LEASE_MS] [default: 10000]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    lease_ms: Option<String>,
    /// Most runs that this server works on at a time [env: ANSWERABLE_MAX_RUNNING] [default: 500]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_running: Option<String>,
    /// How long running steps may take to finish after SIGTERM, in milliseconds [env: ANSWERABLE_DRAIN_MS]
    /// [default: 20000]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    drain_ms: Option<String>,
    /// Longest request body, in bytes [env: ANSWERABLE_MAX_BODY_BYTES] [default: 4194304]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_body_bytes: Option<String>,
    /// Most requests that are dealt with at a time; the next ones wait a moment and are then turned away
    /// [env: ANSWERABLE_MAX_REQUESTS] [default: 512]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_requests: Option<String>,
    /// Most event streams that are open at a time; fewer where the system allows fewer open files
    /// [env: ANSWERABLE_MAX_STREAMS] [default: 16000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_streams: Option<String>,
    /// Most connections of one address at a time; not for servers behind a proxy, which is one address
    /// [env: ANSWERABLE_MAX_CONNECTIONS_PER_ADDRESS] [default: as many as of all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_connections_per_address: Option<String>,
    /// Most commits whose spans wait for a collector that is away; over that the oldest are not exported any
    /// more [env: ANSWERABLE_TRACE_BACKLOG] [default: 100000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    trace_backlog: Option<String>,
    #[command(flatten)]
    retention: RetentionFlags,
    #[command(flatten)]
    oidc: OidcFlags,
}

type Values = Vec<(&'static str, String)>;

impl DatabaseFlags {
    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Names and texts of the settings that were given.
    pub(crate) fn values(&self) -> Values {
        given([
            ("database_url", &self.database_url),
            ("database_direct_url", &self.database_direct_url),
            ("log", &self.log),
            ("log_format", &self.log_format),
        ])
    }
}

impl RetentionFlags {
    /// Names and texts of the settings that were given.
    pub(crate) fn values(&self) -> Values {
        given([("keep_journal_days", &self.keep_journal_days), ("keep_runs_days", &self.keep_runs_days)])
    }
}

impl OidcFlags {
    /// Names and texts of the settings that were given.
    fn values(&self) -> Values {
        given([
            ("oidc_issuer", &self.oidc_issuer),
            ("oidc_audience", &self.oidc_audience),
            ("oidc_jwks_url", &self.oidc_jwks_url),
            ("oidc_tenant_claim", &self.oidc_tenant_claim),
            ("oidc_scopes_claim", &self.oidc_scopes_claim),
            ("oidc_user_claim", &self.oidc_user_claim),
        ])
    }
}

impl ServerFlags {
    pub(crate) fn config(&self) -> Option<&Path> {
        self.database.config()
    }

    /// Names and texts of the settings that were given.
    pub(crate) fn values(&self) -> Values {
        let mut values = self.database.values();
        values.extend(self.retention.values());
        values.extend(self.oidc.values());
        values.extend(given([
            ("listen", &self.listen),
            ("public_url", &self.public_url),
            ("egress_allow", &self.egress_allow),
            ("blobs", &self.blobs),
            ("shell", &self.shell),
            ("shell_network", &self.shell_network),
            ("shell_at_once", &self.shell_at_once),
            ("shell_memory_mb", &self.shell_memory_mb),
            ("shell_dir", &self.shell_dir),
            ("lease_ms", &self.lease_ms),
            ("max_running", &self.max_running),
            ("drain_ms", &self.drain_ms),
            ("max_body_bytes", &self.max_body_bytes),
            ("max_requests", &self.max_requests),
            ("max_streams", &self.max_streams),
            ("max_connections_per_address", &self.max_connections_per_address),
            ("trace_backlog", &self.trace_backlog),
        ]));
        values
    }
}

/// Those flags that were given.
pub(crate) fn given<const N: usize>(flags: [(&'static str, &Option<String>); N]) -> Values {
    flags.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))).collect()
}
