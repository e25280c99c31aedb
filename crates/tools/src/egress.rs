//! The guard of outgoing calls: public addresses and what the operator allows, nothing else.
//!
//! An address is judged twice. The URL is judged as it was parsed, because a literal address never meets a resolver and
//! has many spellings (`0x7f.1`, `2130706433`, `[::ffff:127.0.0.1]`). A name is judged by what it resolves to, inside
//! the resolver that the connection uses, so that no second answer of the DNS can slip in between.
//! Redirects are not followed and no proxy of the environment is asked, so no third way leads out.

mod address;
mod allow;
mod client;
mod fault;
#[cfg(test)]
mod hostile;
mod resolver;

pub use address::is_public;
pub use allow::{Allow, NotAllowable};
pub use client::{BrokenClient, GuardedClient, install_crypto};
pub use fault::{Fault, tls_fault};

use std::net::IpAddr;

use url::{Host, Url};

/// Why an address is not called. The words name no address: they may reach a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The text is no absolute address.
    #[error("the address can't be read")]
    Unreadable,
    /// Neither http nor https.
    #[error("only http and https addresses are called")]
    Scheme,
    /// `user:password@` before the host, which is there to mislead or to be logged.
    #[error("an address with a user or password is not called")]
    UserInfo,
    /// Neither public nor allowed.
    #[error("the address is not public and not on the operator's list")]
    Private,
}

/// Says which addresses may be called.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allow: Allow,
}

impl Guard {
    /// A guard that lets public addresses pass, and those of `allow`.
    #[must_use]
    pub fn new(allow: Allow) -> Self {
        Self { allow }
    }

    /// Reads and judges an address as far as it can be told without the DNS; a host name passes here and is judged when
    /// it is resolved.
    ///
    /// # Errors
    /// Why the address is not called.
    pub fn check(&self, url: &str) -> Result<Url, Refused> {
        let url = Url::parse(url).map_err(|_| Refused::Unreadable)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::UserInfo);
        }
        let passes = match url.host() {
            Some(Host::Domain(_)) => true,
            Some(Host::Ipv4(address)) => self.admits(address.into()),
            Some(Host::Ipv6(address)) => self.admits(address.into()),
            None => return Err(Refused::Unreadable),
        };
        if passes { Ok(url) } else { Err(Refused::Private) }
    }

    /// Whether this address may be called.
    #[must_use]
    pub fn admits(&self, address: IpAddr) -> bool {
        is_public(address) || self.allow.has_address(address)
    }

    /// Whether this address may be called as the one that `host` resolves to.
    #[must_use]
    pub fn admits_for(&self, host: &str, address: IpAddr) -> bool {
        self.admits(address) || self.allow.has_host(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(list: &str) -> Guard {
        Guard::new(Allow::parse(list).expect("a list"))
    }

    #[test]
    fn spellings_of_private_addresses_are_refused() {
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://①②⑦.0.0.1/",
            "http://0/",
            "http://0x0/",
            "http://0.0.0.0:8080/",
            "http://[::]/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::ffff:0:127.0.0.1]/",
            "http://[64:ff9b::10.0.0.1]/",
            "http://[2002:a00:1::]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "https://169.254.169.254/latest/meta-data/",
            "http://2852039166/",
        ] {
            assert_eq!(guard("").check(url).map(|_| ()), Err(Refused::Private), "{url}");
        }
    }

    #[test]
    fn only_plain_web_addresses_are_called() {
        for (url, wanted) in [
            ("file:///etc/passwd", Refused::Scheme),
            ("gopher://8.8.8.8:70/x", Refused::Scheme),
            ("http://8.8.8.8@10.0.0.1/", Refused::UserInfo),
            ("http://:secret@8.8.8.8/", Refused::UserInfo),
            ("/orders", Refused::Unreadable),
            ("http://", Refused::Unreadable),
            ("http://[::1%25eth0]/", Refused::Unreadable),
        ] {
            assert_eq!(guard("0.0.0.0/0").check(url).map(|_| ()), Err(wanted), "{url}");
        }
        for url in [
            "https://shop.example/a?b=c",
            "http://8.8.8.8/",
            "http://[2606:4700::1]:81/",
            "http://[::ffff:8.8.8.8]/",
        ] {
            assert!(guard("").check(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn what_is_allowed_is_no_more_than_was_said() {
        let loopback = guard("127.0.0.0/8");
        for fine in
            ["http://127.0.0.1:9/", "http://127.9.9.9/", "http://[::ffff:127.0.0.1]/", "http://0x7f.1/"]
        {
            assert!(loopback.check(fine).is_ok(), "{fine}");
        }
        for odd in [
            "http://0.0.0.0/",
            "http://0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:0.0.0.0]/",
            "http://10.0.0.1/",
        ] {
            assert_eq!(loopback.check(odd).map(|_| ()), Err(Refused::Private), "{odd}");
        }
        // An address behind a translator is not the address itself.
        assert!(loopback.check("http://[64:ff9b::127.0.0.1]/").is_err());
    }

    #[test]
    fn a_name_is_judged_by_what_it_resolves_to() {
        let private = "10.0.0.7".parse().expect("an address");
        assert!(!guard("").admits_for("shop.internal", private));
        assert!(guard("shop.internal").admits_for("Shop.Internal.", private));
        assert!(!guard("shop.internal").admits_for("evil-shop.internal", private));
        assert!(guard("*.internal").admits_for("a.shop.internal", private));
        assert!(!guard("*.internal").admits_for("internal", private));
        assert!(guard("").admits_for("anything", "8.8.8.8".parse().expect("an address")));
    }
}
