//! The query of a request: names that the document doesn't have, and repeated ones, are refused.

use axum::extract::{FromRequestParts, MatchedPath};
use chrono::{DateTime, Utc};
use http::request::Parts;

use crate::document::{self, Operation};
use crate::moment;
use crate::problem::Problem;

/// The query's parameters.
#[derive(Debug, Clone)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Those of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Names and values of the parameters that begin with `prefix`, without it.
    pub(crate) fn with_prefix<'p>(&'p self, prefix: &'p str) -> impl Iterator<Item = (&'p str, &'p str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// An id. What can't be one is no fault of a filter: nothing has it.
    pub(crate) fn id<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, T::Err> {
        self.get(name).map(str::parse).transpose()
    }

    /// A whole number within a range.
    pub(crate) fn integer(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| fault(name, format!("must be a whole number from {least} to {most}")))
    }

    /// One of some words.
    pub(crate) fn word(&self, name: &str, words: &[&'static str]) -> Result<Option<&'static str>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let known = words.iter().find(|word| **word == text).copied();
        known.map(Some).ok_or_else(|| fault(name, format!("must be one of {}", words.join(", "))))
    }

    /// A moment (RFC 3339).
    pub(crate) fn time(&self, name: &str) -> Result<Option<DateTime<Utc>>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        moment::read(text).map(Some).ok_or_else(|| fault(name, "must be a time as in RFC 3339"))
    }
}

fn fault(name: &str, message: impl Into<String>) -> Problem {
    let name = answerable_core::json::clean_text(answerable_core::text::head(name, 100));
    let token = answerable_core::field_error::pointer_token(&name);
    Problem::invalid_at(format!("/query/{token}"), message)
}

/// Refuses a query that holds what the operation doesn't know, or the same twice. Part of every extractor that says
/// who asks, so that no route can forget it.
pub(crate) fn check_names(parts: &Parts) -> Result<(), Problem> {
    let Some(template) = parts.extensions.get::<MatchedPath>() else { return Ok(()) };
    check(document::operation(&parts.method, template.as_str()), &Params::of(parts))
}

/// The same of an operation's parameters.
pub(crate) fn check(operation: Option<&Operation>, params: &Params) -> Result<(), Problem> {
    for (i, (name, value)) in params.0.iter().enumerate() {
        if !operation.is_some_and(|operation| operation.takes_query(name)) {
            return Err(fault(name, "this parameter is not known"));
        }
        if params.0[..i].iter().any(|(earlier, _)| earlier == name) {
            return Err(fault(name, "may be given once"));
        }
        let longest = operation.and_then(|operation| operation.longest_query(name));
        if let Some(most) = longest.filter(|most| value.chars().count() as u64 > *most) {
            return Err(fault(name, format!("may have {most} characters at most")));
        }
        if name.contains('\0') || value.contains('\0') {
            return Err(fault(name, "may not hold NUL"));
        }
    }
    Ok(())
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self::of(parts))
    }
}
