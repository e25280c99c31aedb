//! Votes on an approval: who gave them, with which key, and which of them count.

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::Millis;
use answerable_core::id::KeyId;
use answerable_core::permission::BY_LINK;
use answerable_ports::commit::DecisionWord;
use serde_json::{Value, json};

/// As in the contract.
pub(crate) fn word(word: DecisionWord) -> &'static str {
    match word {
        DecisionWord::Approve => "approve",
        DecisionWord::Deny => "deny",
        DecisionWord::Answer => "answer",
    }
}

/// What votes agree on: the word, and the input or answer that it is about. Approvals of different edits don't add up.
pub(crate) fn subject(said: DecisionWord, about: &str) -> String {
    format!("{} {about}", word(said))
}

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter {
    /// The user that a key's owner speaks for, the key itself, a person under their own name, or whoever has the link.
    pub by: String,
    /// The key that they decide with; a person and whoever has the link decide with none.
    pub key: Option<KeyId>,
}

impl Voter {
    /// Whoever has the link.
    pub fn with_link() -> Self {
        Self { by: BY_LINK.into(), key: None }
    }

    /// Whether nobody says who they are.
    pub fn has_link_alone(&self) -> bool {
        self.by == BY_LINK
    }

    /// Their vote, as it is stored.
    pub(crate) fn vote(&self, said: DecisionWord, of: &str, remember: Option<&Value>, at: Millis) -> Value {
        let at = crate::commit::moment(at).to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        json!({"decision": word(said), "by": self.by, "at": at, "of": of, "key": self.key, "remember": remember})
    }
}

/// The votes on an approval, and the keys that are valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Votes<'a> {
    pub(crate) all: &'a Value,
    pub(crate) valid_keys: &'a BTreeSet<KeyId>,
}

impl<'a> Votes<'a> {
    /// Different deciders who said the same thing, and whose keys are valid.
    pub(crate) fn deciders(self, of: &str) -> BTreeSet<String> {
        let agreeing = self.counting().filter(|vote| text(vote, "of") == Some(of));
        agreeing.filter_map(|vote| text(vote, "by")).map(str::to_owned).collect()
    }

    /// The same, and until when the word of each counts, by the keys that are valid until then.
    pub(crate) fn deciders_until(
        self,
        of: &str,
        valid_until: &BTreeMap<KeyId, Option<Millis>>,
    ) -> BTreeMap<String, Option<Millis>> {
        let mut deciders = BTreeMap::new();
        for vote in self.counting().filter(|vote| text(vote, "of") == Some(of)) {
            let Some(by) = text(vote, "by") else { continue };
            let until = key(vote).and_then(|key| valid_until.get(&key).copied().flatten());
            let known = deciders.entry(by.to_owned()).or_insert(until);
            // Who said it twice has said it as long as one of the two counts.
            *known = known.zip(until).map(|(one, other)| one.max(other));
        }
        deciders
    }

    /// Those of them who asked that the same be remembered, each with the key.
    pub(crate) fn remembering(self, of: &str, remember: &Value) -> BTreeMap<String, Option<KeyId>> {
        let agreeing = self.counting().filter(|vote| text(vote, "of") == Some(of));
        let asking = agreeing.filter(|vote| vote.get("remember") == Some(remember));
        asking.filter_map(|vote| Some((text(vote, "by")?.to_owned(), key(vote)))).collect()
    }

    /// What somebody asked to be remembered.
    pub(crate) fn remembered(self, by: &str) -> Option<&'a Value> {
        self.counting().find(|vote| text(vote, "by") == Some(by))?.get("remember")
    }

    /// What somebody voted for. What was said with a key that is gone was not said.
    pub(crate) fn own(self, by: &str) -> Option<&'a str> {
        let own = self.counting().find(|vote| text(vote, "by") == Some(by));
        own.map(|vote| text(vote, "of").unwrap_or_default())
    }

    fn counting(self) -> impl Iterator<Item = &'a Value> {
        let valid_keys = self.valid_keys;
        let counts = move |vote: &&Value| key(vote).is_none_or(|key| valid_keys.contains(&key));
        self.all.as_array().into_iter().flatten().filter(counts)
    }
}

/// The keys that votes were given with.
pub(crate) fn keys(votes: &Value) -> impl Iterator<Item = KeyId> + '_ {
    votes.as_array().into_iter().flatten().filter_map(key)
}

/// An older vote names its key only where it is the decider itself.
fn key(vote: &Value) -> Option<KeyId> {
    text(vote, "key").or_else(|| text(vote, "by")).and_then(|key| key.parse().ok())
}

fn text<'a>(vote: &'a Value, name: &str) -> Option<&'a str> {
    vote.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn who_did_not_ask_for_the_same_does_not_stand_behind_it() {
        let vote = |by: &str, of: &str, remember: Option<Value>| {
            Voter { by: by.into(), key: None }.vote(DecisionWord::Approve, of, remember.as_ref(), 0)
        };
        let (narrow, wide) = (json!({"scope": "run"}), json!({"scope": "tenant"}));
        let all = json!([
            vote("user:ann", "a", Some(narrow.clone())),
            vote("user:bob", "a", Some(wide.clone())),
            vote("user:cid", "b", Some(wide.clone())),
            vote("user:dan", "a", None),
        ]);
        let votes = Votes { all: &all, valid_keys: &BTreeSet::new() };
        assert_eq!(votes.remembering("a", &wide), BTreeMap::from([("user:bob".to_owned(), None)]));
        assert_eq!((votes.remembered("user:ann"), votes.remembered("user:eve")), (Some(&narrow), None));
    }

    #[test]
    fn votes_of_keys_that_are_gone_do_not_count_and_nobody_counts_twice() {
        let (valid, gone) = (KeyId(Uuid::from_u128(1)), KeyId(Uuid::from_u128(2)));
        let vote = |by: &str, key: Option<KeyId>, of: &str| {
            Voter { by: by.into(), key }.vote(DecisionWord::Approve, of, None, 0)
        };
        let older =
            |by: &str| json!({"decision": "approve", "by": by, "at": "2026-01-01T00:00:00.000Z", "of": "a"});
        let all = json!([
            vote("user:ann", Some(gone), "a"),
            vote("user:ann", Some(valid), "a"),
            vote("user:ann", Some(valid), "a"),
            vote("user:bob", Some(gone), "a"),
            vote("user:cid", Some(valid), "b"),
            vote("link", None, "a"),
            older("user:dan"),
            older(&gone.to_string()),
            older(&valid.to_string()),
        ]);
        let valid_keys = BTreeSet::from([valid]);
        let votes = Votes { all: &all, valid_keys: &valid_keys };
        let wanted = ["link", "user:ann", "user:dan", &valid.to_string()].map(str::to_owned);
        assert_eq!(votes.deciders("a"), BTreeSet::from(wanted));
        assert_eq!(votes.deciders("b"), BTreeSet::from(["user:cid".to_owned()]));
        assert_eq!(
            ["user:ann", "user:bob", "user:cid", "link"].map(|by| votes.own(by)),
            [Some("a"), None, Some("b"), Some("a")]
        );
        assert_eq!(keys(&all).filter(|key| *key == gone).count(), 3);
    }

    #[test]
    fn a_word_counts_as_long_as_the_key_that_it_was_given_with() {
        let keys = [1, 2, 3].map(|nth| KeyId(Uuid::from_u128(nth)));
        let vote = |by: &str, key: Option<KeyId>| {
            Voter { by: by.into(), key }.vote(DecisionWord::Approve, "a", None, 0)
        };
        let all = json!([
            vote("user:ann", Some(keys[0])),
            vote("user:bob", Some(keys[1])),
            vote("user:bob", Some(keys[0])),
            vote("user:cid", Some(keys[0])),
            vote("user:cid", Some(keys[2])),
            vote("link", None),
        ]);
        let valid_until = BTreeMap::from([(keys[0], Some(10)), (keys[1], Some(20)), (keys[2], None)]);
        let votes = Votes { all: &all, valid_keys: &keys.into() };
        let wanted = [("link", None), ("user:ann", Some(10)), ("user:bob", Some(20)), ("user:cid", None)];
        let wanted = wanted.map(|(by, until)| (by.to_owned(), until));
        assert_eq!(votes.deciders_until("a", &valid_until), wanted.into());
    }
}
