//! Deciding one approval, with a key or by a link that carries its own proof. Looking at the link decides nothing.

use answerable_core::id::{ApprovalId, TenantId};
use answerable_store::LinkedApproval;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header;
use http::request::Parts;

use super::approvals;
use crate::auth::{Decide, Tenant};
use crate::decision_page;
use crate::idempotency::{Once, Turn};
use crate::path::Id;
use crate::problem::Problem;
use crate::query::Params;
use crate::router::{Route, get, post};
use crate::shapes::approvals::DecisionRequest;
use crate::state::AppState;

/// Bytes of a form.
const MAX_FORM: usize = 4096;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/approvals/{approval_id}/decision", show),
        post("/v1/approvals/{approval_id}/decision", decide),
    ]
}

/// Who decides which approval.
struct Decider {
    tenant: TenantId,
    approval_id: ApprovalId,
    by: String,
}

impl FromRequestParts<AppState> for Decider {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        if parts.headers.contains_key(header::AUTHORIZATION) {
            let tenant = Tenant::<Decide>::from_request_parts(parts, state).await?;
            let Id(approval_id) = Id::from_request_parts(parts, state).await?;
            return Ok(Self { tenant: tenant.id, approval_id, by: tenant.who() });
        }
        let Linked { tenant, approval_id } = Linked::from_request_parts(parts, state).await?;
        Ok(Self { tenant, approval_id, by: "link".into() })
    }
}

/// Somebody with a link. Its query is not looked at any further: whatever was added to it decides nothing.
struct Linked {
    tenant: TenantId,
    approval_id: ApprovalId,
}

impl FromRequestParts<AppState> for Linked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let params = Params::from_request_parts(parts, state).await?;
        let token = params.get("token").ok_or_else(Problem::unauthorized)?;
        let Id(approval_id) = Id::<ApprovalId>::from_request_parts(parts, state).await?;
        match state.store.approval_link(approval_id, token).await? {
            LinkedApproval::Of(tenant) => Ok(Self { tenant, approval_id }),
            LinkedApproval::Expired => Err(Problem::expired("This link has expired.")),
            LinkedApproval::Forged => Err(Problem::not_found()),
        }
    }
}

/// The page of a link. Scanners of mail and chat open every link, so nothing but a POST decides.
async fn show(State(state): State<AppState>, linked: Linked) -> Result<Response, Problem> {
    let row = state.store.tenant(linked.tenant).await?.approval_fetch(linked.approval_id).await?;
    let approval = row.ok_or_else(Problem::not_found)?;
    match approval.status.as_str() {
        "expired" | "cancelled" => Err(Problem::expired("This approval has expired or was cancelled.")),
        _ => Ok(decision_page::ask(&approval)),
    }
}

async fn decide(State(state): State<AppState>, decider: Decider, said: Said) -> Result<Response, Problem> {
    match said {
        Said::Json(once) => decide_json(&state, decider, once).await,
        Said::Form(request) => {
            let mut tx = state.store.tenant(decider.tenant).await?;
            let decided = approvals::decide(&mut tx, decider.approval_id, request, &decider.by).await??;
            tx.commit().await?;
            Ok(decision_page::thank(&decided))
        }
    }
}

async fn decide_json(
    state: &AppState,
    decider: Decider,
    once: Once<DecisionRequest>,
) -> Result<Response, Problem> {
    let mut first = match once.key.begin(state, decider.tenant).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer().into_response()),
    };
    let decided = approvals::decide(&mut first.tx, decider.approval_id, once.body, &decider.by).await??;
    let answer = crate::problem::Answer::ok(&decided)?;
    Ok(first.answer_with_run(answer, decided.run_id().0).await?.into_response())
}

/// A decision as JSON, or, from the page of a link, as its form: that page works without scripts.
enum Said {
    Json(Once<DecisionRequest>),
    Form(DecisionRequest),
}

impl FromRequest<AppState> for Said {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        if !is_form(&request) {
            return Once::from_request(request, state).await.map(Self::Json);
        }
        let bytes = axum::body::to_bytes(request.into_body(), MAX_FORM).await;
        let bytes = bytes.map_err(|_| Problem::payload_too_large(MAX_FORM))?;
        let fields: Vec<_> = url::form_urlencoded::parse(&bytes).collect();
        match fields.as_slice() {
            [(name, word)] if name == "decision" => DecisionRequest::of_word(word).map(Self::Form),
            _ => Err(Problem::invalid_at("/decision", "must be approve or deny, and nothing else")),
        }
    }
}

fn is_form(request: &Request) -> bool {
    let kind =
        request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    !request.headers().contains_key(header::AUTHORIZATION)
        && kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
