//! Who stands behind a grant at this moment: its deciders, as long as the keys are valid that they decided with.

use std::collections::BTreeSet;

use answerable_core::id::{GrantId, KeyId};
use answerable_core::permission::Grant;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::Result;
use crate::load::decode;
use crate::tx::TenantTx;

/// A grant as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredGrant {
    pub(crate) grant_id: Uuid,
    pub(crate) tool_name: String,
    pub(crate) input_hash: Option<String>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) created_by: String,
    /// None: an older server made the grant, and whoever did so decided alone.
    pub(crate) deciders: Vec<String>,
    /// The key of each.
    pub(crate) decider_keys: Vec<Option<Uuid>>,
    pub(crate) max_risk: String,
}

impl StoredGrant {
    fn each(&self) -> impl Iterator<Item = (&String, Option<KeyId>)> {
        let alone = self.deciders.is_empty().then_some((&self.created_by, None));
        let kept = self.deciders.iter().zip(self.decider_keys.iter().copied());
        // Where no key was kept, a decider that is a key is its own.
        alone.into_iter().chain(kept).map(|(by, key)| (by, key.map(KeyId).or_else(|| by.parse().ok())))
    }

    fn valid(&self, valid_keys: &BTreeSet<KeyId>) -> Vec<String> {
        let counts = |key: &Option<KeyId>| key.is_none_or(|key| valid_keys.contains(&key));
        self.each().filter(|(_, key)| counts(key)).map(|(by, _)| by.clone()).collect()
    }
}

impl TenantTx {
    /// Grants as calls are judged by them: with those deciders who count still.
    pub(crate) async fn grants_read(&mut self, grants: Vec<StoredGrant>) -> Result<Vec<Grant>> {
        let keys: Vec<KeyId> =
            grants.iter().flat_map(|grant| grant.each().filter_map(|(_, key)| key)).collect();
        let valid_keys = self.keys_valid(keys.into_iter()).await?;
        let read = |grant: StoredGrant| {
            Ok(Grant {
                id: GrantId(grant.grant_id),
                deciders: grant.valid(&valid_keys),
                tool_name: grant.tool_name,
                input_hash: grant.input_hash,
                expires_at: grant.expires_at.map(|at| at.timestamp_millis()),
                max_risk: decode(Value::String(grant.max_risk), "risk of a grant")?,
            })
        };
        grants.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_lost_the_key_stands_behind_nothing() {
        let (valid, gone) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let valid_keys = BTreeSet::from([KeyId(valid)]);
        let name = |key: Uuid| KeyId(key).to_string();
        let behind = |created_by: &str, deciders: &[(&str, Option<Uuid>)]| {
            let (deciders, decider_keys) = deciders.iter().map(|(by, key)| ((*by).to_owned(), *key)).unzip();
            let grant = StoredGrant {
                grant_id: Uuid::nil(),
                tool_name: "pay".into(),
                input_hash: None,
                expires_at: None,
                created_by: created_by.into(),
                deciders,
                decider_keys,
                max_risk: "high".into(),
            };
            grant.valid(&valid_keys)
        };
        let deciders =
            [("user:ann", Some(valid)), ("user:bob", Some(gone)), ("link", None), ("user:cid", None)];
        assert_eq!(behind("user:bob", &deciders), ["user:ann", "link", "user:cid"]);
        let keys = [(&*name(valid), None), (&*name(gone), None)];
        assert_eq!(behind("user:bob", &keys), [name(valid)]);
        assert_eq!(behind("user:old", &[]), ["user:old"]);
        assert_eq!(behind(&name(valid), &[]), [name(valid)]);
        assert_eq!(behind(&name(gone), &[]), [""; 0]);
    }
}
