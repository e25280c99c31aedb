//! How many connections there may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files that are left for all else, where there are enough: the database, calls of tools and models, contents.
const OTHER_FILES: u64 = 2048;
/// Connections beside those of streams: requests must come in while all streams are open.
const FOR_REQUESTS: usize = 4096;

/// How many there may be of what a client holds open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Bounds {
    /// Connections.
    pub(super) connections: usize,
    /// Of one address.
    pub(super) per_address: usize,
    /// Event streams.
    pub(in crate::server) streams: usize,
}

impl Bounds {
    /// What is wanted, as far as the system lets this process have so many open files. That limit is raised as far as may
    /// be: each connection is a file, and the usual first limit is meant for other programs.
    pub(in crate::server) fn within_files(streams: usize, per_address: Option<usize>) -> Self {
        let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
            if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map(|()| hard) } else { Ok(soft) }
        });
        let files = raised.or_else(|error| {
            tracing::debug!(%error, "the limit of open files stays as it is");
            getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft)
        });
        let bounds = Self::of(streams, per_address, files.unwrap_or(1024));
        if bounds.streams < streams {
            let (most, wanted) = (bounds.streams, streams);
            tracing::info!(most, wanted, "the limit of open files leaves room for fewer event streams");
        }
        bounds
    }

    fn of(streams: usize, per_address: Option<usize>, files: u64) -> Self {
        let ours = files - OTHER_FILES.min(files / 4);
        let ours = usize::try_from(ours).unwrap_or(usize::MAX);
        let connections = ours.min(streams.saturating_add(FOR_REQUESTS));
        let streams = streams.min(connections - FOR_REQUESTS.min(connections / 8));
        Self { connections, per_address: per_address.unwrap_or(connections), streams }
    }
}

/// Connections by the address that they come from. In IPv6 its first 64 bits count: whoever has one has all that begin so.
#[derive(Debug, Clone, Default)]
pub(super) struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Addresses {
    /// One more, if the address has fewer than `most`.
    pub(super) fn enter(&self, address: IpAddr, most: usize) -> Option<Entered> {
        let address = network(address);
        let mut counts = self.counts();
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Entered { addresses: self.clone(), address })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    addresses: Addresses,
    address: IpAddr,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut counts = self.addresses.counts();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_connections_left_when_all_streams_are_open() {
        for files in [64, 1024, 4096, 20_000, 1_048_576] {
            for streams in [8, 10_000, 16_000, 1_000_000] {
                let bounds = Bounds::of(streams, None, files);
                assert!((1..=streams).contains(&bounds.streams), "{bounds:?}");
                assert!(bounds.connections > bounds.streams, "{bounds:?}");
                assert!(bounds.connections as u64 <= files - files / 4 || files > 8192, "{bounds:?}");
            }
        }
        let usual = Bounds::of(16_000, None, 1_048_576);
        assert_eq!(usual, Bounds { connections: 20_096, per_address: 20_096, streams: 16_000 });
    }

    #[test]
    fn an_address_has_so_many_and_each_its_own() {
        let addresses = Addresses::default();
        let [a, mapped, b] =
            ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        let one = addresses.enter(a, 2).expect("the first");
        let two = addresses.enter(mapped, 2).expect("the second");
        assert!(addresses.enter(a, 2).is_none() && addresses.enter(b, 2).is_some());
        drop(one);
        assert!(addresses.enter(a, 2).is_some());
        drop(two);
        assert!(addresses.counts().is_empty());
    }

    #[test]
    fn all_addresses_of_a_network_are_one() {
        let addresses = Addresses::default();
        let enter = |text: &str| addresses.enter(text.parse().expect("an address"), 2);
        let held = [enter("2001:db8:1:2::1"), enter("2001:db8:1:2:ffff:ffff:ffff:ffff")];
        assert!(held.iter().all(Option::is_some) && enter("2001:db8:1:2::3").is_none());
        assert!(enter("2001:db8:1:3::1").is_some() && enter("10.0.0.1").is_some());
        drop(held);
        assert!(enter("2001:db8:1:2::1").is_some() && addresses.counts().is_empty());
    }
}
