//! The routes, by resource.

mod agents;
mod tool_results;
mod runs;
mod run_reads;
mod ledger;
mod grants;
mod decisions;
mod artifacts;
mod approvals;
mod deliveries;
mod keys;
mod policy;
mod providers;
mod secrets;
mod server;
mod signing_secret;
mod tenants;
mod usage;
mod webhooks;
mod threads;

use crate::router::Route;

/// All of them.
pub(crate) fn all() -> Vec<Route> {
    [
        server::routes(),
        tenants::routes(),
        keys::routes(),
        providers::routes(),
        secrets::routes(),
        policy::routes(),
        signing_secret::routes(),
        agents::routes(),
        threads::routes(),
        webhooks::routes(),
        deliveries::routes(),
        usage::routes(),
        tool_results::routes(),
        runs::routes(),
        run_reads::routes(),
        ledger::routes(),
        grants::routes(),
        decisions::routes(),
        artifacts::routes(),
        approvals::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
