//! Who vouches for people.

use std::sync::Arc;

use answerable_identity::{Issuer, IssuerConfig};
use answerable_ports::{Clock, Identity};
use answerable_tools::{Allow, GuardedClient};
use tokio_util::sync::CancellationToken;
use url::{Host, Url};

use crate::Failure;
use crate::config::EgressAllow;

/// Begins to keep the keys of the issuer that the operator names, until `stop`.
pub(super) fn start(
    config: Option<&IssuerConfig>,
    egress: &EgressAllow,
    clock: &Clock,
    stop: &CancellationToken,
) -> Result<Option<Arc<dyn Identity>>, Failure> {
    let Some(config) = config else { return Ok(None) };
    let reachable = reachable(config, egress.clone());
    let client = GuardedClient::new(Allow::new(reachable.networks, reachable.hosts)).map_err(Failure::new)?;
    Ok(Some(Issuer::start(config.clone(), client, clock.clone(), stop.clone())))
}

/// What outgoing calls may reach, and the issuer: who names an address here means that it be called.
fn reachable(config: &IssuerConfig, egress: EgressAllow) -> EgressAllow {
    let named = [Some(&config.rules.issuer), config.jwks_url.as_ref()];
    let mut reachable = egress;
    for url in named.into_iter().flatten().filter_map(|url| Url::parse(url).ok()) {
        match url.host() {
            Some(Host::Domain(name)) => reachable.hosts.push(name.to_owned()),
            Some(Host::Ipv4(address)) => reachable.networks.push(std::net::IpAddr::from(address).into()),
            Some(Host::Ipv6(address)) => reachable.networks.push(std::net::IpAddr::from(address).into()),
            None => {}
        }
    }
    reachable
}
