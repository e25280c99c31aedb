//! What the operator allows beside public addresses.

use std::net::IpAddr;

use ipnet::IpNet;

/// Networks and host names that may be called though they are not public.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    networks: Vec<IpNet>,
    hosts: Vec<String>,
}

/// An item of a list that is neither a network nor a host name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a network like 10.0.0.0/8 nor a host name")]
pub struct NotAllowable(pub String);

impl Allow {
    /// From parts that are known to make sense. A host is a name (`shop.internal`) or `*.` and the end of one.
    #[must_use]
    pub fn new(networks: Vec<IpNet>, hosts: Vec<String>) -> Self {
        Self { networks, hosts: hosts.iter().map(|host| plain(host)).collect() }
    }

    /// Reads a list with commas of networks, addresses and host names.
    ///
    /// # Errors
    /// The first item that is none of these.
    pub fn parse(list: &str) -> Result<Self, NotAllowable> {
        let (mut networks, mut hosts) = (Vec::new(), Vec::new());
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let bare = item.trim_start_matches('[').trim_end_matches(']');
            if let Ok(network) = item.parse::<IpNet>() {
                networks.push(network.trunc());
            } else if let Ok(address) = bare.parse::<IpAddr>() {
                networks.push(address.into());
            } else if is_host(item) {
                hosts.push(item.to_owned());
            } else {
                return Err(NotAllowable(item.to_owned()));
            }
        }
        Ok(Self::new(networks, hosts))
    }

    /// Whether a network has this address; a mapped one counts as the IPv4 address that it is.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&plain) || network.contains(&address))
    }

    /// Whether the name is on the list, whatever it resolves to.
    #[must_use]
    pub fn has_host(&self, host: &str) -> bool {
        let host = plain(host);
        self.hosts.iter().any(|allowed| match allowed.strip_prefix('*') {
            Some(end) => host.len() > end.len() && host.ends_with(end),
            None => host == *allowed,
        })
    }
}

/// A name in the one form that is compared: lower case, no dot at its end.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    // All digits and dots is a mistyped address, never a host.
    name.len() <= 253 && plain(name).split('.').all(is_label) && name.chars().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_networks_addresses_and_hosts() {
        let allow =
            Allow::parse(" 10.1.2.3/16, [::1],192.168.0.9 ,Shop.internal,*.corp.example,,").expect("a list");
        let address = |text: &str| allow.has_address(text.parse().expect("an address"));
        assert!(
            address("10.1.255.1") && address("::1") && address("192.168.0.9") && address("::ffff:10.1.0.1")
        );
        assert!(!address("10.2.0.0") && !address("::2") && !address("192.168.0.8"));
        assert!(allow.has_host("shop.internal") && allow.has_host("A.corp.example."));
        assert!(
            !allow.has_host("corp.example")
                && !allow.has_host("a.shop.internal")
                && !allow.has_host("xcorp.example")
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for item in ["http://shop", "shop:80", "10.0.0.0/33", "1.2.3", "*", "*.", "a b", "a.*.b", "-/8"] {
            assert_eq!(Allow::parse(item), Err(NotAllowable(item.into())));
        }
    }
}
