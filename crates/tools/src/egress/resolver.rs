//! The resolver of guarded connections: private addresses never come out of it.

use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{Guard, Refused};

/// Resolves by the system and leaves out what the guard doesn't admit.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver(pub(super) Guard);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let total = found.len();
            let admitted: Vec<_> =
                found.into_iter().filter(|found| guard.admits_for(name.as_str(), found.ip())).collect();
            if admitted.is_empty() && total > 0 {
                return Err(Refused::Private.into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}
