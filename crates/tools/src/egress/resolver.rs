//! The resolver of guarded connections: private addresses never come out of it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{Guard, Refused};

type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Says what a name resolves to.
#[derive(Clone)]
pub(super) struct Lookup(Arc<dyn Fn(String) -> Answer + Send + Sync>);

impl Lookup {
    pub(super) fn new(look_up: impl Fn(String) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(look_up))
    }

    /// As this machine resolves names.
    pub(super) fn of_system() -> Self {
        Self::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|found| found.ip()).collect())
            })
        })
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

/// Leaves out what the guard doesn't admit. A connection is made to what comes out of here and to nothing else, so a name
/// that resolves to something else a moment later gains nothing.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver {
    pub(super) guard: Guard,
    pub(super) lookup: Lookup,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, answer) = (self.guard.clone(), (self.lookup.0)(name.as_str().to_owned()));
        Box::pin(async move {
            let found = answer.await?;
            let total = found.len();
            let admits = |address: &IpAddr| guard.admits_for(name.as_str(), *address);
            let admitted: Vec<_> =
                found.into_iter().filter(admits).map(|address| SocketAddr::new(address, 0)).collect();
            if admitted.is_empty() && total > 0 {
                return Err(Refused::Private.into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}
