//! Who a request's credentials prove that it is.

use std::sync::Arc;

use answerable_core::id::KeyId;
use answerable_ports::{NotVouched, Vouched};
use answerable_store::{KeyFacts, TenantFacts};
use http::header;
use http::request::Parts;

use super::standing::Standing;
use crate::key_ring::parse_key;
use crate::problem::Problem;
use crate::state::AppState;

/// Somebody of a tenant.
#[derive(Debug, Clone)]
pub(crate) enum Principal {
    /// Whoever has one of its keys.
    Key(Arc<KeyFacts>),
    /// A person, under a name of their own.
    Person(Person),
}

/// A person whom somebody vouches for whom the operator trusts.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    /// The tenant that they act for.
    pub(crate) tenant: Arc<TenantFacts>,
    /// Their name.
    pub(crate) user: Arc<str>,
    /// What they may do.
    pub(crate) scopes: Arc<[String]>,
}

impl Principal {
    /// The tenant.
    pub(crate) fn tenant(&self) -> &TenantFacts {
        match self {
            Self::Key(facts) => &facts.tenant,
            Self::Person(person) => &person.tenant,
        }
    }

    /// What they may do.
    pub(crate) fn scopes(&self) -> &[String] {
        match self {
            Self::Key(facts) => &facts.scopes,
            Self::Person(person) => &person.scopes,
        }
    }

    /// The key, if it is one.
    pub(crate) fn key_id(&self) -> Option<KeyId> {
        match self {
            Self::Key(facts) => Some(facts.key_id),
            Self::Person(_) => None,
        }
    }

    /// As deciders and creators are named: a key's id, or `user:NAME`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Key(facts) => facts.key_id.to_string(),
            Self::Person(person) => format!("user:{}", person.user),
        }
    }
}

/// The credentials of a request.
pub(super) fn bearer(parts: &Parts) -> Result<&str, Problem> {
    let value = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, key) = value.and_then(|value| value.split_once(' ')).ok_or_else(Problem::unauthorized)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(key.trim()) } else { Err(Problem::unauthorized()) }
}

/// Whose credentials these are, if they are good now.
pub(super) async fn principal(parts: &Parts, state: &AppState) -> Result<(Principal, Standing), Problem> {
    let text = bearer(parts)?;
    let standing = match parse_key(text) {
        Some((key_id, secret_hash)) => Standing::Key { key_id, secret_hash },
        None => person(text, state).await?,
    };
    let principal = standing.check(state).await?;
    if let (Principal::Key(facts), Standing::Key { secret_hash, .. }) = (&principal, &standing) {
        state.keys.touch(state, facts.key_id, *secret_hash).await;
    }
    Ok((principal, standing))
}

/// Whom somebody vouches for, if there is somebody whom the operator trusts with that.
async fn person(token: &str, state: &AppState) -> Result<Standing, Problem> {
    let identity = state.config.identity.as_ref().ok_or_else(Problem::unauthorized)?;
    match identity.vouched(token).await {
        Ok(Vouched { tenant, user, scopes, until }) => {
            Ok(Standing::Person { tenant, user: user.into(), scopes: scopes.into(), until })
        }
        Err(NotVouched::Refused) => Err(Problem::unauthorized()),
        Err(NotVouched::Away) => Err(Problem::away("The identity provider can't be reached.")),
    }
}
