//! The names of all settings. The key in `answerable.toml` is the name; flag and variable follow from it.

/// Every setting of the server.
pub(crate) const NAMES: [&str; 34] = [
    "database_url",
    "database_direct_url",
    "listen",
    "public_url",
    "operator_key",
    "secret_key",
    "other_secret_keys",
    "egress_allow",
    "oidc_issuer",
    "oidc_audience",
    "oidc_jwks_url",
    "oidc_tenant_claim",
    "oidc_scopes_claim",
    "oidc_user_claim",
    "lease_ms",
    "max_running",
    "drain_ms",
    "max_body_bytes",
    "max_requests",
    "max_streams",
    "max_connections_per_address",
    "keep_journal_days",
    "keep_runs_days",
    "trace_backlog",
    "blobs",
    "shell",
    "shell_network",
    "shell_at_once",
    "shell_memory_mb",
    "shell_dir",
    "data_dir",
    "log",
    "log_format",
    "pg_bin",
];

/// Variables that begin like ours and are read elsewhere: by the client commands, by the search for
/// PostgreSQL, by the tests.
pub(crate) const OTHER_VARIABLES: [&str; 6] = [
    "ANSWERABLE_URL",
    "ANSWERABLE_API_KEY",
    "ANSWERABLE_PG_VENV",
    "ANSWERABLE_TEST_DATABASE_URL",
    "ANSWERABLE_TEST_BINARY",
    "ANSWERABLE_TEST_MCP_SERVERS",
];

/// What a test build is told to suffer; a normal one doesn't know these.
pub(crate) const FAULT_VARIABLES: &[&str] =
    if cfg!(feature = "faults") { &["ANSWERABLE_FAULT_CRASH", "ANSWERABLE_FAULT_WITHOUT"] } else { &[] };

/// The environment variable of a setting.
pub(crate) fn variable(name: &str) -> String {
    match name {
        "database_url" => "DATABASE_URL".to_owned(),
        _ => format!("ANSWERABLE_{}", name.to_uppercase()),
    }
}

/// The command-line flag of a setting.
pub(crate) fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}
