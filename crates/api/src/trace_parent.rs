//! `traceparent` (W3C Trace Context): which span of the caller's a run belongs to.

use std::convert::Infallible;

use answerable_core::trace::{SpanLink, TraceContext};
use answerable_store::TenantTx;
use axum::extract::FromRequestParts;
use http::request::Parts;
use uuid::Uuid;

use crate::problem::Problem;

/// The caller's span, if the request names one; what names none is ignored, as the specification has it.
#[derive(Debug, Clone)]
pub(crate) struct TraceParent(Option<SpanLink>);

impl<S: Sync> FromRequestParts<S> for TraceParent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut headers = parts.headers.get_all("traceparent").iter();
        let (first, second) = (headers.next(), headers.next());
        let header = first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok());
        Ok(Self(header.and_then(SpanLink::from_traceparent)))
    }
}

impl TraceParent {
    /// Nobody's.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Where a run that is asked for so has its trace.
    pub(crate) async fn context(self, tx: &mut TenantTx) -> Result<TraceContext, Problem> {
        let trusted = match self.0 {
            Some(_) => tx.tenant_trusts_traceparent().await?,
            None => false,
        };
        Ok(TraceContext::of(Uuid::new_v4().simple().to_string(), self.0, trusted))
    }
}
