//! Who asks: a tenant's key with its scopes, or the operator.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use answerable_core::id::{KeyId, TenantId};
use answerable_store::{KeyFacts, Signals};
use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header;
use http::request::Parts;
use moka::future::Cache;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::problem::Problem;
use crate::query;
use crate::state::AppState;

/// What is known of a key is believed for so long, even if its change was never heard of.
const BELIEVED: Duration = Duration::from_secs(5);
/// `last_used_at` is written at most so often.
const TOUCHED: Duration = Duration::from_secs(60);
/// Keys that are remembered.
const REMEMBERED: u64 = 20_000;

/// What is known of keys, for some seconds.
pub(crate) struct KeyRing {
    facts: Cache<Uuid, Option<Arc<KeyFacts>>>,
    touched: Cache<Uuid, ()>,
    changes: Mutex<broadcast::Receiver<()>>,
}

impl KeyRing {
    pub(crate) fn new(signals: &Signals) -> Self {
        Self {
            facts: Cache::builder().max_capacity(REMEMBERED).time_to_live(BELIEVED).build(),
            touched: Cache::builder().max_capacity(REMEMBERED).time_to_live(TOUCHED).build(),
            changes: Mutex::new(signals.keys()),
        }
    }

    /// Forgets everything if a key or a tenant has changed.
    fn hear_changes(&self) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        while matches!(changes.try_recv(), Ok(()) | Err(broadcast::error::TryRecvError::Lagged(_))) {
            changed = true;
        }
        if changed {
            self.facts.invalidate_all();
        }
    }

    async fn find(&self, state: &AppState, key_id: Uuid) -> Result<Option<Arc<KeyFacts>>, Problem> {
        self.hear_changes();
        if let Some(known) = self.facts.get(&key_id).await {
            return Ok(known);
        }
        let found = state.store.system().await?.key_find(KeyId(key_id)).await?.map(Arc::new);
        self.facts.insert(key_id, found.clone()).await;
        Ok(found)
    }

    /// Notes in the background that a key was used.
    async fn touch(&self, state: &AppState, facts: &KeyFacts) {
        let key_id = facts.key_id;
        if self.touched.contains_key(&key_id.0) {
            return;
        }
        self.touched.insert(key_id.0, ()).await;
        let store = state.store.clone();
        tokio::spawn(async move {
            let noted = async {
                let mut tx = store.system().await?;
                tx.key_touch(key_id).await?;
                tx.commit().await
            };
            if let Err(error) = noted.await {
                tracing::debug!(%error, "the use of a key was not noted");
            }
        });
    }
}

/// A new key: its text, and what is stored of it.
pub(crate) fn make_key(key_id: KeyId) -> Result<(SecretString, [u8; 32]), Problem> {
    let mut secret = [0_u8; 32];
    getrandom::fill(&mut secret).map_err(|error| Problem::internal(error.to_string()))?;
    let text = format!("ans_{}_{}", key_id.0.simple(), URL_SAFE_NO_PAD.encode(secret));
    Ok((text.into(), hash(&secret)))
}

fn hash(secret: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Id and hashed secret of a key's text.
fn parse_key(text: &str) -> Option<(Uuid, [u8; 32])> {
    let (id, secret) = text.strip_prefix("ans_")?.split_once('_')?;
    if id.len() != 32 || secret.len() != 43 || id.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let secret: [u8; 32] = URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?;
    Some((Uuid::try_parse(id).ok()?, hash(&secret)))
}

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
    if !is_it || facts.expires_at.is_some_and(|at| at <= chrono::Utc::now()) {
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
    acting_user: Option<String>,
    scope: PhantomData<S>,
}

impl<S> Tenant<S> {
    /// Who decides: the user that the key's owner speaks for, or the key itself.
    pub(crate) fn who(&self) -> String {
        self.acting_user.as_ref().map_or_else(|| self.key_id.to_string(), |user| format!("user:{user}"))
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
        let acting_user = if speaks_for_others { acting_user(parts)? } else { None };
        Ok(Self { id: facts.tenant_id, key_id: facts.key_id, is_admin, acting_user, scope: PhantomData })
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
pub(crate) struct Operator;

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
            return Ok(Self);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made() {
        let id = KeyId(Uuid::from_u128(0xabc));
        let (text, stored) = make_key(id).expect("a key");
        assert_eq!(parse_key(text.expose_secret()), Some((id.0, stored)));
        assert_eq!(text.expose_secret().len(), 4 + 32 + 1 + 43);
        for wrong in ["", "ans_", "ans__", "key", &"k".repeat(5000), &format!("{}=", text.expose_secret())] {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
    }
}
