//! Who vouches for people, so that they act under a name of their own.

use answerable_core::Millis;
use answerable_core::id::TenantId;
use async_trait::async_trait;

/// A person whom somebody vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// The tenant that they act for, if there is one with this id.
    pub tenant: TenantId,
    /// Their name: 1 to 128 printable ASCII characters.
    pub user: String,
    /// What they may do.
    pub scopes: Vec<String>,
    /// It is good until then.
    pub until: Millis,
}

/// Nobody vouches for whoever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotVouched {
    /// The token is not good.
    #[error("the token is not good")]
    Refused,
    /// It can't be told at the moment.
    #[error("nobody can tell at the moment whether the token is good")]
    Away,
}

/// Judges the tokens that people bring.
#[async_trait]
pub trait Identity: Send + Sync {
    /// Who brings a token.
    ///
    /// # Errors
    /// Nobody vouches for them.
    async fn vouched(&self, token: &str) -> Result<Vouched, NotVouched>;
}
