//! What is sent.

use std::collections::BTreeMap;

use answerable_core::template::{Filling, TemplateError};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::PreparedCall;
use http::Method;
use reqwest::RequestBuilder;
use secrecy::ExposeSecret;

use super::{address, given, headers};
use crate::egress::{GuardedClient, Refused};
use crate::sent::{Sent, tracked};

/// A request that is ready to go.
pub(super) struct Request {
    pub(super) builder: RequestBuilder,
    /// When it leaves; a request without a body can't tell.
    pub(super) sent: Option<Sent>,
}

/// Makes the request of a call; `now` is in seconds since the Unix epoch. Where it can't be made, nothing is sent and
/// the attempt is refused.
pub(super) fn make(client: &GuardedClient, call: &PreparedCall, now: i64) -> Result<Request, Attempt> {
    let Some(http) = &call.tool.http else {
        return Err(Attempt::Refused(ErrorCode::Internal, "the tool has no address".into()));
    };
    let exposed = call.secrets.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
    let secrets: BTreeMap<String, String> = exposed.collect();
    let filling = Filling {
        input: &call.input,
        context: &call.context,
        secrets: &secrets,
        idempotency_key: &call.idempotency_key,
    };
    let url = address::fill(&http.url, &filling, &given::query(http, &filling)?)?;
    let body = given::body(http, &filling)?;
    let headers = headers::make(call, &http.headers, &filling, body.as_deref(), now)?;
    let builder = client.request(method(http.method), &url).map_err(refused)?.headers(headers);
    let Some(body) = body else { return Ok(Request { builder, sent: None }) };
    let sent = Sent::default();
    Ok(Request { builder: builder.body(tracked(body, sent.clone())), sent: Some(sent) })
}

fn method(method: answerable_core::agent::Method) -> Method {
    use answerable_core::agent::Method as Tool;
    match method {
        Tool::Get => Method::GET,
        Tool::Post => Method::POST,
        Tool::Put => Method::PUT,
        Tool::Patch => Method::PATCH,
        Tool::Delete => Method::DELETE,
    }
}

fn refused(refused: Refused) -> Attempt {
    match refused {
        Refused::Unreadable => invalid(refused),
        _ => Attempt::Refused(ErrorCode::PermissionDenied, format!("{refused}; nothing was sent")),
    }
}

/// A template that can't be filled; the message names the slot, never a value.
pub(super) fn unfilled(error: TemplateError) -> Attempt {
    invalid(error)
}

/// The call's values don't fit what the author wrote.
pub(super) fn invalid(why: impl std::fmt::Display) -> Attempt {
    Attempt::Refused(ErrorCode::InvalidArguments, format!("{why}; nothing was sent"))
}
