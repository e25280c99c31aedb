//! The operator, who proves it by the configured key.

use answerable_core::audit::{Actor, Origin};
use answerable_core::id::TenantId;
use answerable_store::{SystemTx, TenantTx};
use axum::extract::FromRequestParts;
use http::request::Parts;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::principal::{bearer, principal};
use super::take_up;
use crate::held::{Held, Who};
use crate::origin;
use crate::problem::Problem;
use crate::query;
use crate::state::AppState;

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
            Held::of(parts).take_place(state, Who::Operator).await?;
            query::check_names(parts)?;
            return Ok(Self { origin: origin::note(parts, Actor::Operator) });
        }
        let (principal, _) = principal(parts, state).await?;
        take_up(parts, state, principal.tenant()).await?;
        Err(Problem::forbidden("This is the operator's."))
    }
}
