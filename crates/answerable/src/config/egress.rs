//! Which addresses outgoing calls may reach besides public ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// Networks and host names that tool calls, model calls and webhooks may reach though they are private.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressAllow {
    /// Networks by address.
    pub networks: Vec<IpNet>,
    /// Host names, in lower case, whatever they resolve to.
    pub hosts: Vec<String>,
}

impl EgressAllow {
    /// This machine itself: what `answerable dev` allows.
    #[must_use]
    pub fn loopback() -> Self {
        let v4 = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
        Self { networks: vec![v4.into(), IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST))], hosts: Vec::new() }
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.networks.extend(other.networks);
        self.hosts.extend(other.hosts);
        self
    }
}

impl FromStr for EgressAllow {
    type Err = String;

    /// Reads a list with commas of networks (`10.1.0.0/16`), addresses and host names.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut allow = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if let Ok(network) = item.parse::<IpNet>() {
                allow.networks.push(network.trunc());
            } else if let Ok(address) = item.trim_matches(['[', ']']).parse::<IpAddr>() {
                allow.networks.push(address.into());
            } else if is_host(item) {
                allow.hosts.push(item.to_ascii_lowercase());
            } else {
                return Err(format!(
                    "has {item:?}, which is neither a network like 10.0.0.0/8 nor a host name"
                ));
            }
        }
        Ok(allow)
    }
}

fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // All digits and dots is a mistyped address, never a host.
    text.len() <= 253 && text.split('.').all(label) && text.chars().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_addresses_and_hosts_are_told_apart() {
        let allow: EgressAllow =
            " 10.1.2.3/16, 192.168.0.9 ,[::1],fd00::/8,Shop.internal, db ,".parse().expect("valid");
        let networks: Vec<String> = allow.networks.iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["10.1.0.0/16", "192.168.0.9/32", "::1/128", "fd00::/8"]);
        assert_eq!(allow.hosts, ["shop.internal", "db"]);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["http://shop", "shop:80", "10.0.0.0/33", "1.2.3", "*.shop", "a b", "-x"] {
            let error = text.parse::<EgressAllow>().expect_err(text);
            assert!(error.starts_with(&format!("has {text:?}")), "{error}");
        }
    }

    #[test]
    fn loopback_is_both_families() {
        let networks: Vec<String> =
            EgressAllow::loopback().networks.iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["127.0.0.0/8", "::1/128"]);
    }
}
