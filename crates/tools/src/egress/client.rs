//! The client that all outgoing calls are made with.

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder};
use url::Url;

use super::resolver::{GuardedResolver, Lookup};
use super::{Allow, Guard, Refused};

/// How long a connection may take to come about, name resolution and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept. Common servers close theirs after 5 s; a call that meets that moment is cut,
/// and a write of which nobody knows whether it happened stops a run.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections that are kept for one host.
const IDLE_PER_HOST: usize = 32;

/// No client can be made on this machine.
#[derive(Debug, thiserror::Error)]
#[error("the client for outgoing calls can't be made: {0}")]
pub struct BrokenClient(#[from] reqwest::Error);

/// Makes `ring` the cryptography of TLS in this process. Does nothing where one is chosen already.
pub fn install_crypto() {
    // An error says that another was there first, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An HTTP client that reaches what its [`Guard`] admits and nothing else: no redirects, no proxies of the environment.
/// Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct GuardedClient {
    guard: Guard,
    client: Client,
}

impl GuardedClient {
    /// A client for public addresses and those of `allow`.
    ///
    /// # Errors
    /// TLS can't be set up.
    pub fn new(allow: Allow) -> Result<Self, BrokenClient> {
        Self::resolving(allow, &Lookup::of_system())
    }

    /// The same with another way to resolve names.
    pub(super) fn resolving(allow: Allow, lookup: &Lookup) -> Result<Self, BrokenClient> {
        install_crypto();
        let guard = Guard::new(allow);
        let client = match builder(&guard, lookup).build() {
            Ok(client) => client,
            // A machine without root certificates can still call plain http.
            Err(error) => {
                tracing::warn!(%error, "no root certificates: https addresses can't be called");
                builder(&guard, lookup).tls_certs_only([]).build()?
            }
        };
        Ok(Self { guard, client })
    }

    /// Judges an address; see [`Guard::check`].
    ///
    /// # Errors
    /// Why it is not called.
    pub fn check(&self, url: &str) -> Result<Url, Refused> {
        self.guard.check(url)
    }

    /// Begins a request to an address that the guard admits.
    ///
    /// # Errors
    /// Why it is not called.
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder, Refused> {
        Ok(self.client.request(method, self.check(url)?))
    }
}

fn builder(guard: &Guard, lookup: &Lookup) -> ClientBuilder {
    let resolver = GuardedResolver { guard: guard.clone(), lookup: lookup.clone() };
    Client::builder()
        .dns_resolver(Arc::new(resolver))
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .user_agent(concat!("answerable/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_PER_HOST)
}
