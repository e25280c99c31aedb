//! Tools of kind `http`: a request to the tenant's own service (contract, "Tool calls over HTTP").
//!
//! The parts, in the order of a call: `request` makes what is sent (`address`, `headers` and `given` fill the
//! author's templates, `crate::sent` notices when the first byte leaves), `body` reads what comes back within limits, `content` says
//! what it is, `outcome` says what it means.
//!
//! Invariant: an attempt is `NotDone` or `Refused` only where the far side can't have done it.

mod address;
pub(crate) mod body;
pub(crate) mod content;
mod given;
mod headers;
pub(crate) mod outcome;
mod request;

use std::time::Duration;

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{Came, Clock, PreparedCall, ToolExecutor};
use async_trait::async_trait;
use secrecy::ExposeSecret;
use tokio::time::{Instant, timeout_at};

use crate::egress::{Fault, GuardedClient};
use crate::mask::Mask;
use request::Request;

/// Runs tools of kind `http`.
#[derive(Debug, Clone)]
pub struct HttpTools {
    client: GuardedClient,
    clock: Clock,
}

impl HttpTools {
    /// Calls go out through `client`, signed at the time of `clock`.
    #[must_use]
    pub fn new(client: GuardedClient, clock: Clock) -> Self {
        Self { client, clock }
    }
}

#[async_trait]
impl ToolExecutor for HttpTools {
    /// One request, never repeated here. Dropping the future ends the connection.
    async fn run(&self, call: &PreparedCall) -> Came {
        let deadline = Instant::now() + Duration::from_millis(call.tool.timeout_ms());
        let request = match request::make(&self.client, call, self.clock.now() / 1000) {
            Ok(request) => request,
            Err(attempt) => return attempt.into(),
        };
        let Request { builder, sent } = request;
        match timeout_at(deadline, builder.send()).await {
            Ok(Ok(response)) => outcome::read(response, deadline, call, &mask(call)).await,
            Ok(Err(error)) => failed(Fault::from(&error)).into(),
            Err(_) if sent.is_some_and(|sent| sent.give_up()) => failed(Fault::NotConnected).into(),
            Err(_) => outcome::late(call).into(),
        }
    }
}

/// What a call that got no answer means.
fn failed(fault: Fault) -> Attempt {
    match fault {
        Fault::Refused(refused) => {
            Attempt::Refused(ErrorCode::PermissionDenied, format!("{refused}; nothing was sent"))
        }
        Fault::NotConnected => Attempt::NotDone(
            ErrorCode::Unavailable,
            "no connection could be made; nothing was sent".into(),
            None,
        ),
        Fault::Cut => {
            Attempt::Unclear(ErrorCode::Unavailable, "the connection was cut before an answer came".into())
        }
    }
}

/// All that went out and must not come back.
fn mask(call: &PreparedCall) -> Mask {
    let secrets = call.secrets.values().chain(&call.signing_secrets);
    Mask::new(secrets.map(ExposeSecret::expose_secret))
}
