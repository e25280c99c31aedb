//! The record of who did what. Acts are noted where they happen and written when their transaction is committed, so that
//! neither is ever there without the other; the head of a chain is the last lock that a transaction takes.

mod list;
mod write;

use answerable_core::audit::{Act, Action, Origin};
use answerable_core::id::TenantId;
use answerable_core::json::sha256_hex;
use serde_json::{Value, json};

use crate::Result;
use crate::tx::{SystemTx, TenantTx};

pub use list::AuditFilter;

/// Acts of a transaction that is not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Acts {
    origin: Origin,
    /// Each with the tenant in whose chain it is written; `None`: the operator's own.
    noted: Vec<(Option<TenantId>, Act)>,
}

impl Acts {
    pub(crate) fn len(&self) -> usize {
        self.noted.len()
    }

    /// Forgets all but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.noted.truncate(len);
    }
}

impl TenantTx {
    /// Who asks for what this transaction does. Nobody named: the server does it by itself.
    pub fn asked_by(&mut self, origin: Origin) {
        self.acts.origin = origin;
    }

    /// Notes what is done.
    pub(crate) fn act(&mut self, action: Action, target: impl ToString, detail: Value) {
        self.acts.noted.push((Some(self.tenant_id), Act::new(action, target, detail)));
    }

    /// Notes what is done in the operator's own chain.
    pub(crate) fn operator_act(&mut self, action: Action, target: impl ToString, detail: Value) {
        self.acts.noted.push((None, Act::new(action, target, detail)));
    }

    /// Forgets what was noted for the tenant's own chain: it is gone.
    pub(crate) fn acts_forget(&mut self) {
        self.acts.noted.retain(|(chain, _)| chain.is_none());
    }

    /// Writes what was noted.
    pub(crate) async fn acts_write(&mut self) -> Result<()> {
        let Acts { origin, noted } = std::mem::take(&mut self.acts);
        let (own, operators): (Vec<_>, Vec<_>) = noted.into_iter().partition(|(chain, _)| chain.is_some());
        let tenant = self.tenant_id;
        write::append(self.conn(), Some(tenant), &origin.to_tenant(), &acts(own)).await?;
        if !operators.is_empty() {
            // A tenant's role reaches its own chain alone.
            self.become_system().await?;
            write::append(self.conn(), None, &origin, &acts(operators)).await?;
        }
        Ok(())
    }
}

fn acts(noted: Vec<(Option<TenantId>, Act)>) -> Vec<Act> {
    noted.into_iter().map(|(_, act)| act).collect()
}

impl SystemTx {
    /// Who asks for what this transaction does. Nobody named: the server does it by itself.
    pub fn asked_by(&mut self, origin: Origin) {
        self.acts.origin = origin;
    }

    /// Notes what the operator does to a tenant: in the operator's own chain, since the tenant's goes with it, and in the
    /// tenant's.
    pub(crate) fn act_on(&mut self, tenant: TenantId, action: Action, target: impl ToString, detail: Value) {
        let act = Act::new(action, target, detail);
        let mut operators = act.clone();
        if action.target_type() != "tenant" {
            operators.detail.insert("tenant_id".to_owned(), json!(tenant));
        }
        self.acts.noted.extend([(Some(tenant), act), (None, operators)]);
    }

    /// Notes what is done in the operator's own chain alone.
    pub(crate) fn operator_act(&mut self, action: Action, target: impl ToString, detail: Value) {
        self.acts.noted.push((None, Act::new(action, target, detail)));
    }

    /// Writes what was noted.
    pub(crate) async fn acts_write(&mut self) -> Result<()> {
        let Acts { origin, noted } = std::mem::take(&mut self.acts);
        let to_tenants = origin.to_tenant();
        // Tenants' chains before the operator's, as in a transaction of a tenant.
        let mut chains: Vec<Option<TenantId>> = noted.iter().map(|(chain, _)| *chain).collect();
        chains.sort_unstable_by(|a, b| b.cmp(a));
        chains.dedup();
        for chain in chains {
            let of = |(own, act): &(Option<TenantId>, Act)| (*own == chain).then(|| act.clone());
            let acts: Vec<Act> = noted.iter().filter_map(of).collect();
            let origin = if chain.is_some() { &to_tenants } else { &origin };
            write::append(self.conn(), chain, origin, &acts).await?;
        }
        Ok(())
    }
}

/// What is written down of an address: where it leads, and a hash of the whole. User, path, query and fragment may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Scheme, host and port.
    pub(crate) url: String,
    /// Hash of the whole.
    pub(crate) hash: String,
}

impl Address {
    pub(crate) fn of(url: &str) -> Self {
        let hash = sha256_hex(url.as_bytes());
        // Slashes of either kind end a host, as for whoever calls it.
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let host = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Self { url: if is_scheme { format!("{scheme}://{host}") } else { String::new() }, hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_what_may_be_secret() {
        for (url, shown) in [
            ("https://a.example/x/y?token=1#z", "https://a.example"),
            ("https://user:canary@a.example:8443/x@y", "https://a.example:8443"),
            ("https://hooks.example/services/canary", "https://hooks.example"),
            ("https://a.example\\canary", "https://a.example"),
            ("http://a.example#canary", "http://a.example"),
            ("https:a.example/canary", ""),
            ("https:/a.example/x://canary", ""),
            ("", ""),
            ("canary@thing?x", ""),
        ] {
            let address = Address::of(url);
            assert_eq!(address.url, shown, "{url}");
            assert_eq!(address.hash, sha256_hex(url.as_bytes()));
        }
    }
}
