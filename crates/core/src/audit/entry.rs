//! An entry, and what it is made of.

use serde_json::{Map, Value, json};

use super::Action;
use crate::id::{AuditId, KeyId, TenantId};
use crate::json::input_hash;

/// Who does something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Actor {
    /// A key, and the user that it speaks for.
    Key {
        /// The key.
        key_id: KeyId,
        /// The user, as the key says.
        user: Option<String>,
    },
    /// A person of the tenant, under a name of their own.
    Person {
        /// The name.
        user: String,
    },
    /// The operator.
    Operator,
    /// Somebody with a link.
    Link,
    /// The server by itself.
    #[default]
    Server,
}

impl Actor {
    fn to_json(&self) -> Value {
        let (kind, key_id, user) = match self {
            Self::Key { key_id, user } => ("key", Some(*key_id), user.as_deref()),
            Self::Person { user } => ("person", None, Some(user.as_str())),
            Self::Operator => ("operator", None, None),
            Self::Link => ("link", None, None),
            Self::Server => ("server", None, None),
        };
        json!({"kind": kind, "key_id": key_id, "user": user})
    }
}

/// From where something is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The other end of the connection.
    pub address: Option<String>,
    /// What the request says of where it was before; a claim.
    pub forwarded_for: Option<String>,
    /// What the request says of the program that sent it; a claim.
    pub user_agent: Option<String>,
    /// The request.
    pub request_id: Option<String>,
}

/// Who does something, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Who.
    pub actor: Actor,
    /// From where.
    pub place: Place,
}

impl Origin {
    /// As a tenant is told of it: where the operator sits is the operator's own affair.
    #[must_use]
    pub fn to_tenant(&self) -> Self {
        let mut told = self.clone();
        if told.actor == Actor::Operator {
            told.place = Place { request_id: told.place.request_id, ..Place::default() };
        }
        told
    }
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Act {
    /// What.
    pub action: Action,
    /// To what: its id, or its name where it is called by that.
    pub target: String,
    /// Small facts of it: neither secrets nor contents, but their hashes.
    pub detail: Map<String, Value>,
}

impl Act {
    /// Something that was done. What of `detail` is null is left out; it must be an object.
    pub fn new(action: Action, target: impl ToString, detail: Value) -> Self {
        let facts = match detail {
            Value::Object(facts) => facts.into_iter().filter(|(_, fact)| !fact.is_null()).collect(),
            _ => Map::new(),
        };
        Self { action, target: target.to_string(), detail: facts }
    }
}

/// The end of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// The last entry's number; 0: there is none.
    pub seq: i64,
    /// Its hash.
    pub hash: Option<String>,
}

/// An entry as it is stored and shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id.
    pub id: AuditId,
    /// Its place in the chain, from 1.
    pub seq: i64,
    /// Whose chain it is in; `None`: the operator's own.
    pub tenant_id: Option<TenantId>,
    /// When, as it is shown.
    pub at: String,
    /// Who.
    pub actor: Value,
    /// What.
    pub action: String,
    /// To what.
    pub target: Value,
    /// From where.
    pub from: Value,
    /// Small facts.
    pub detail: Value,
    /// Hash of the entry before; `None`: it is the first.
    pub prev_hash: Option<String>,
    /// Hash of all the others.
    pub hash: String,
}

impl Entry {
    /// The entry of an act after `head`.
    pub fn after(
        head: &Head,
        id: AuditId,
        at: &str,
        tenant_id: Option<TenantId>,
        origin: &Origin,
        act: &Act,
    ) -> Self {
        let place = &origin.place;
        let mut entry = Self {
            id,
            seq: head.seq + 1,
            tenant_id,
            at: at.to_owned(),
            actor: origin.actor.to_json(),
            action: act.action.to_string(),
            target: json!({"type": act.action.target_type(), "id": act.target}),
            from: json!({"address": place.address, "forwarded_for": place.forwarded_for,
                "user_agent": place.user_agent, "request_id": place.request_id}),
            detail: Value::Object(act.detail.clone()),
            prev_hash: head.hash.clone(),
            hash: String::new(),
        };
        entry.hash = input_hash(&Value::Object(entry.hashed()));
        entry
    }

    /// The end of the chain, with this entry as its last.
    pub fn head(&self) -> Head {
        Head { seq: self.seq, hash: Some(self.hash.clone()) }
    }

    /// All that is hashed: what is shown, without the hash.
    fn hashed(&self) -> Map<String, Value> {
        let mut shown = Map::new();
        let mut show = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        show("id", json!(self.id));
        show("seq", json!(self.seq));
        show("tenant_id", json!(self.tenant_id));
        show("at", json!(self.at));
        show("actor", self.actor.clone());
        show("action", json!(self.action));
        show("target", self.target.clone());
        show("from", self.from.clone());
        show("detail", self.detail.clone());
        show("prev_hash", json!(self.prev_hash));
        shown
    }

    /// As it is shown.
    pub fn to_json(&self) -> Value {
        let mut shown = self.hashed();
        shown.insert("hash".to_owned(), json!(self.hash));
        Value::Object(shown)
    }
}
