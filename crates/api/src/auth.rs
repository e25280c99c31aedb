//! Who asks: a tenant's key with its scopes, or the operator.

use std::marker::PhantomData;
use std::sync::Arc;

use answerable_core::audit::{Actor, Origin};
use answerable_core::id::{KeyId, TenantId};
use answerable_store::{KeyFacts, SystemTx, TenantTx, Voter};
use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::key_ring::parse_key;
use crate::origin;
use crate::problem::Problem;
use crate::query;
use crate::state::AppState;

fn bearer(parts: &Parts) -> Result<&str, Problem> {
    let value = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, key) = value.and_then(|value| value.split_once(' ')).ok_or_else(Problem::unauthorized)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(key.trim()) } else { Err(Problem::unauthorized()) }
}

/// The facts of a tenant's key that is valid now.
async fn valid_key(parts: &Parts, state: &AppState) -> Result<Arc<KeyFacts>, Problem> {
    let (key_id, given) = parse_key(bearer(parts)?).ok_or_else(Problem::unauthorized)?;
    let facts = state.keys.find(state, key_id).await?.ok_or_else(Problem::unauthorized)?;
    let is_it = bool::from(facts.secret_hash.ct_eq(&given));
    if !is_it || facts.expires_at.is_some_and(|at| at.timestamp_millis() <= state.store.clock().now()) {
        return Err(Problem::unauthorized());
    }
    state.keys.touch(state, &facts).await;
    Ok(facts)
}

/// Scopes of which any one is enough; `admin` always is.
pub(crate) trait Scope: Send + Sync + 'static {
    /// Their names.
    const ANY_OF: &'static [&'static str];
}

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident = [$($scope:literal),*];)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;
        impl Scope for $name {
            const ANY_OF: &'static [&'static str] = &[$($scope),*];
        }
    )*};
}

scopes! {
    /// To read runs.
    RunsRead = ["runs:read"];
    /// To start and command runs.
    RunsWrite = ["runs:write"];
    /// To decide approvals.
    Decide = ["approvals:decide"];
    /// To write agents.
    AgentsWrite = ["agents:write"];
    /// To read what deciders need.
    ReadOrDecide = ["runs:read", "approvals:decide"];
    /// To read agents.
    ReadOrAgents = ["runs:read", "agents:write"];
    /// The tenant's own settings.
    Admin = [];
}

/// A tenant that may do what `S` stands for. The first extractor of every handler of tenants.
#[derive(Debug)]
pub(crate) struct Tenant<S> {
    /// The tenant.
    pub(crate) id: TenantId,
    /// The key it asks with.
    pub(crate) key_id: KeyId,
    /// Whether the key has `admin`.
    pub(crate) is_admin: bool,
    /// What is known of the key.
    key: Arc<KeyFacts>,
    /// Whom it may speak for, if it does.
    acting_user: Option<String>,
    /// Whom it says that it speaks for.
    said_user: Option<String>,
    /// Who and from where, as it is written down.
    pub(crate) origin: Origin,
    scope: PhantomData<S>,
}

impl<S> Tenant<S> {
    /// Begins a transaction that does something in the name of who asks.
    pub(crate) async fn begin(&self, state: &AppState) -> Result<TenantTx, Problem> {
        origin::begin(state, self.id, &self.origin).await
    }

    /// Whether the key may also do what `T` stands for.
    pub(crate) fn may<T: Scope>(&self) -> bool {
        self.is_admin || T::ANY_OF.iter().any(|scope| self.key.scopes.iter().any(|own| own == scope))
    }

    /// All who count as having started what is started with this key: the key, and whoever it says that it speaks for. That
    /// may be said with any key, since it only takes rights away.
    pub(crate) fn creators(&self) -> Vec<String> {
        let user = self.said_user.as_ref().map(|user| format!("user:{user}"));
        std::iter::once(self.key_id.to_string()).chain(user).collect()
    }

    /// Who decides: the user that the key's owner speaks for, or the key itself.
    pub(crate) fn who(&self) -> String {
        self.acting_user.as_ref().map_or_else(|| self.key_id.to_string(), |user| format!("user:{user}"))
    }
}

impl Tenant<Decide> {
    /// Who decides, with which key.
    pub(crate) fn voter(&self) -> Voter {
        Voter { by: self.who(), key: Some(self.key_id) }
    }
}

impl<S: Scope> FromRequestParts<AppState> for Tenant<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let facts = valid_key(parts, state).await?;
        let has = |scope: &str| facts.scopes.iter().any(|own| own == scope);
        let is_admin = has("admin");
        if !is_admin && !S::ANY_OF.iter().any(|scope| has(scope)) {
            let needed = S::ANY_OF.first().copied().unwrap_or("admin");
            return Err(Problem::forbidden(format!("The key needs the scope {needed}.")));
        }
        if let Some(max) = facts.max_requests_per_minute {
            state.limits.count(facts.tenant_id, max).map_err(Problem::rate_limited)?;
        }
        query::check_names(parts)?;
        let speaks_for_others = is_admin || has("approvals:decide");
        let said_user = acting_user(parts)?;
        let acting_user = said_user.clone().filter(|_| speaks_for_others);
        let (id, key_id) = (facts.tenant_id, facts.key_id);
        let origin = origin::note(parts, Actor::Key { key_id, user: acting_user.clone() });
        Ok(Self { id, key_id, is_admin, key: facts, acting_user, said_user, origin, scope: PhantomData })
    }
}

fn acting_user(parts: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = parts.headers.get("x-acting-user") else { return Ok(None) };
    let name = value.to_str().ok().filter(|name| (1..=128).contains(&name.len()));
    match name {
        Some(name) if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => Ok(Some(name.to_owned())),
        _ => Err(Problem::invalid_at("/header/x-acting-user", "must be 1 to 128 printable ASCII characters")),
    }
}

/// The operator. The first extractor of every handler of theirs.
#[derive(Debug)]
pub(crate) struct Operator {
    origin: Origin,
}

impl Operator {
    /// Begins a transaction that does something in the operator's name.
    pub(crate) async fn begin(&self, state: &AppState) -> Result<SystemTx, Problem> {
        let mut tx = state.store.system().await?;
        tx.asked_by(self.origin.clone());
        Ok(tx)
    }

    /// The same within a tenant. It may be deleted there, so this doesn't hold it.
    pub(crate) async fn begin_within(&self, state: &AppState, tenant: TenantId) -> Result<TenantTx, Problem> {
        let mut tx = state.store.tenant(tenant).await?;
        tx.asked_by(self.origin.clone());
        Ok(tx)
    }
}

impl FromRequestParts<AppState> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let given = bearer(parts)?;
        let is_it = state.config.operator_key.as_ref().is_some_and(|key| {
            // Hashes are of one length, so the comparison tells nothing of the key's.
            let digest = |text: &str| <[u8; 32]>::from(Sha256::digest(text.as_bytes()));
            bool::from(digest(key.expose_secret()).ct_eq(&digest(given)))
        });
        if is_it {
            query::check_names(parts)?;
            return Ok(Self { origin: origin::note(parts, Actor::Operator) });
        }
        valid_key(parts, state).await?;
        Err(Problem::forbidden("This is the operator's."))
    }
}

/// Anybody: the server's own pages, and links that carry their own proof.
#[derive(Debug)]
pub(crate) struct Anybody;

impl<S: Sync> FromRequestParts<S> for Anybody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        query::check_names(parts)?;
        Ok(Self)
    }
}
