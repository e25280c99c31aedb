//! Ids in paths. What can't be an id of that kind is simply not there.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;

use crate::problem::Problem;

/// The one id of the path.
#[derive(Debug)]
pub(crate) struct Id<T>(pub(crate) T);

/// The two ids of the path, in order.
#[derive(Debug)]
pub(crate) struct Ids<A, B>(pub(crate) A, pub(crate) B);

async fn values<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Vec<String>, Problem> {
    let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Problem::not_found())?;
    Ok(params.iter().map(|(_, value)| value.to_owned()).collect())
}

fn read<T: FromStr>(values: &[String], at: usize) -> Result<T, Problem> {
    let value = values.get(at).filter(|value| !value.contains('\0'));
    value.and_then(|value| value.parse().ok()).ok_or_else(Problem::not_found)
}

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(read(&values(parts, state).await?, 0)?))
    }
}

impl<S: Send + Sync, A: FromStr, B: FromStr> FromRequestParts<S> for Ids<A, B> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let values = values(parts, state).await?;
        Ok(Self(read(&values, 0)?, read(&values, 1)?))
    }
}

/// Refuses a name under which nothing may be stored.
pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(legal) {
        return Ok(());
    }
    Err(Problem::invalid_at("/path/name", "must have 1 to 64 characters out of A-Za-z0-9_-"))
}
