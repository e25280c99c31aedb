//! The routes, by resource.

mod agents;
mod approvals;
mod artifacts;
mod audit;
mod decisions;
mod deliveries;
mod exports;
mod grants;
mod heirs;
mod inbox;
mod keys;
mod ledger;
mod mcp_servers;
mod policy;
mod providers;
mod recordings;
mod replays;
mod run_deletion;
mod run_reads;
mod runs;
mod schedules;
mod secrets;
mod server;
mod signing_secret;
mod tenants;
mod threads;
mod tool_results;
mod traces;
mod usage;
mod webhooks;
mod workspaces;

use crate::router::Route;

/// All of them.
pub(crate) fn all() -> Vec<Route> {
    [
        agents::routes(),
        approvals::routes(),
        artifacts::routes(),
        audit::routes(),
        decisions::routes(),
        deliveries::routes(),
        exports::routes(),
        grants::routes(),
        heirs::routes(),
        inbox::routes(),
        keys::routes(),
        ledger::routes(),
        mcp_servers::routes(),
        policy::routes(),
        providers::routes(),
        recordings::routes(),
        replays::routes(),
        run_deletion::routes(),
        run_reads::routes(),
        runs::routes(),
        schedules::routes(),
        secrets::routes(),
        server::routes(),
        signing_secret::routes(),
        tenants::routes(),
        threads::routes(),
        tool_results::routes(),
        traces::routes(),
        usage::routes(),
        webhooks::routes(),
        workspaces::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
