//! Who stands behind a grant at this moment: its deciders, as long as the keys are valid that they decided with.

use std::collections::BTreeSet;

use answerable_core::id::KeyId;
use uuid::Uuid;

use crate::Result;
use crate::tx::TenantTx;

/// A grant's deciders, as they are stored.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    pub(crate) created_by: String,
    /// None: an older server made the grant, and whoever did so decided alone.
    pub(crate) deciders: Vec<String>,
    /// The key of each.
    pub(crate) keys: Vec<Option<Uuid>>,
}

impl Behind {
    fn each(&self) -> impl Iterator<Item = (&String, Option<KeyId>)> {
        let alone = self.deciders.is_empty().then_some((&self.created_by, None));
        let kept = self.deciders.iter().zip(self.keys.iter().copied());
        // Where no key was kept, a decider that is a key is its own.
        alone.into_iter().chain(kept).map(|(by, key)| (by, key.map(KeyId).or_else(|| by.parse().ok())))
    }

    fn valid(&self, valid_keys: &BTreeSet<KeyId>) -> Vec<String> {
        let counts = |key: &Option<KeyId>| key.is_none_or(|key| valid_keys.contains(&key));
        self.each().filter(|(_, key)| counts(key)).map(|(by, _)| by.clone()).collect()
    }
}

impl TenantTx {
    /// Of each grant those deciders who count still.
    pub(crate) async fn still_behind(&mut self, grants: &[Behind]) -> Result<Vec<Vec<String>>> {
        let keys: Vec<KeyId> =
            grants.iter().flat_map(|grant| grant.each().filter_map(|(_, key)| key)).collect();
        let valid_keys = self.keys_valid(keys.into_iter()).await?;
        Ok(grants.iter().map(|grant| grant.valid(&valid_keys)).collect())
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
            let (deciders, keys) = deciders.iter().map(|(by, key)| ((*by).to_owned(), *key)).unzip();
            Behind { created_by: created_by.into(), deciders, keys }.valid(&valid_keys)
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
