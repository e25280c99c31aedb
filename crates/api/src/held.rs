//! What a request holds while it is dealt with: its place among those that are, and what is known of its tenant's minute.
//! The layer here makes room for both; whoever proves who asks fills it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_ports::{Crowded, Share};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use crate::large;
use crate::problem::Problem;
use crate::state::AppState;

/// Time that a request waits for a place.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// Who takes places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// Somebody of a tenant.
    Tenant(TenantId),
    /// The operator.
    Operator,
}

/// What is left of a tenant's requests in this minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    /// Requests in a minute.
    pub(crate) limit: u64,
    /// Those that are left.
    pub(crate) remaining: u64,
    /// The minute ends in so long.
    pub(crate) ends_in: Duration,
}

impl Left {
    /// Whole seconds after which there are new ones.
    pub(crate) fn reset(&self) -> u64 {
        self.ends_in.as_secs() + u64::from(self.ends_in.subsec_nanos() > 0)
    }

    fn write_into(&self, headers: &mut HeaderMap) {
        headers.insert("ratelimit-limit", self.limit.into());
        headers.insert("ratelimit-remaining", self.remaining.into());
        headers.insert("ratelimit-reset", self.reset().into());
        if let Ok(policy) = HeaderValue::from_str(&format!("{};w=60", self.limit)) {
            headers.insert("ratelimit-policy", policy);
        }
    }
}

/// What a request holds. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Holding>>);

/// Places of one request; dropping them gives them back.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Among the requests that are dealt with.
    at_work: Option<Share<Who>>,
    /// Among the streams, for one that waits or has waited.
    _waiting: Option<Share<TenantId>>,
}

#[derive(Debug, Default)]
struct Holding {
    places: Places,
    /// Who has or had it.
    who: Option<Who>,
    left: Option<Left>,
}

impl Held {
    /// Of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        parts.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Takes a place among the requests that are dealt with, if the request has none.
    ///
    /// # Errors
    /// There was none for a while, for anybody or for this one.
    pub(crate) async fn take_place(&self, state: &AppState, who: Who) -> Result<(), Problem> {
        if self.holding().places.at_work.is_some() {
            return Ok(());
        }
        match state.places.take_within(who, PATIENCE).await {
            Ok(place) => {
                let mut holding = self.holding();
                (holding.places.at_work, holding.who) = (Some(place), Some(who));
                Ok(())
            }
            Err(why) => Err(shed(state, why)),
        }
    }

    /// The request only waits from here on, with this place, and gives the other one back.
    pub(crate) fn waits(&self, place: Share<TenantId>) {
        let waiting = Places { at_work: None, _waiting: Some(place) };
        let before = std::mem::replace(&mut self.holding().places, waiting);
        drop(before);
    }

    /// What the request holds, for its answer to keep or to give back.
    pub(crate) fn kept(&self) -> Places {
        std::mem::take(&mut self.holding().places)
    }

    /// Who asks, as far as that is known.
    pub(crate) fn who(&self) -> Option<Who> {
        self.holding().who
    }

    /// Notes what is left of the tenant's minute.
    pub(crate) fn note(&self, left: Left) {
        self.holding().left = Some(left);
    }

    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells why somebody is turned away, and counts it.
pub(crate) fn shed(state: &AppState, why: Crowded) -> Problem {
    match why {
        Crowded::Full => {
            state.config.metrics.shed("requests");
            Problem::away("This server has too many requests under way.").after(2)
        }
        Crowded::Part => {
            state.config.metrics.shed("requests_of_one");
            Problem::away("This server has too many requests of this tenant under way.").after(2)
        }
    }
}

/// Gives a request what it may hold, takes it back with the answer, and tells the client of its minute.
pub(crate) async fn hold(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let held = Held::default();
    request.extensions_mut().insert(held.clone());
    let reads = request.method().is_safe();
    let mut response = next.run(request).await;
    if let Some(who) = held.who() {
        response = large::with_place(&state, (who, &held), reads, response).await;
    }
    drop(held.kept());
    let left = held.holding().left;
    if let Some(left) = left {
        left.write_into(response.headers_mut());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_in_whole_seconds() {
        let mut headers = HeaderMap::new();
        let left = Left { limit: 12, remaining: 3, ends_in: Duration::from_millis(8001) };
        left.write_into(&mut headers);
        let told = ["limit", "remaining", "reset", "policy"]
            .map(|name| headers[format!("ratelimit-{name}").as_str()].to_str().expect("text").to_owned());
        assert_eq!(told, ["12", "3", "9", "12;w=60"]);
        assert_eq!(Left { ends_in: Duration::from_secs(8), ..left }.reset(), 8);
    }
}
