//! Deciding one approval, with a key or by a link that carries its own proof. Looking at the link decides nothing.

use std::convert::Infallible;

use answerable_core::audit::{Actor, Origin};
use answerable_core::id::{ApprovalId, RunId, TenantId};
use answerable_store::{ApprovalRecord, LinkedApproval, TenantTx, Voter};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header;
use http::request::Parts;

use super::approvals;
use crate::auth::{Decide, Tenant};
use crate::body;
use crate::decision_page;
use crate::held::{Held, Who};
use crate::idempotency::{Once, Turn};
use crate::origin;
use crate::path::Id;
use crate::problem::Problem;
use crate::query::Params;
use crate::router::{Route, get, post};
use crate::shapes::approvals::{Approval, DecisionRequest};
use crate::state::AppState;

/// Bytes of a form.
const MAX_FORM: usize = 16 * 1024;

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
    voter: Voter,
    origin: Origin,
}

impl Decider {
    /// The body may have taken its time. Keys and people are looked at again where the transaction begins.
    async fn is_still_let(&self, state: &AppState) -> Result<(), Problem> {
        if !self.voter.has_link_alone() {
            return Ok(());
        }
        match state.keys.tenant(state, self.tenant).await? {
            Some(tenant) if tenant.suspended => Err(suspended()),
            _ => Ok(()),
        }
    }

    async fn decide(&self, tx: &mut TenantTx, request: DecisionRequest) -> Result<Approval, Problem> {
        if self.voter.has_link_alone() {
            linked(tx, self.approval_id).await?;
        }
        approvals::decide(tx, self.approval_id, request, &self.voter).await?
    }
}

impl FromRequestParts<AppState> for Decider {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        if parts.headers.contains_key(header::AUTHORIZATION) {
            let tenant = Tenant::<Decide>::from_request_parts(parts, state).await?;
            let Id(approval_id) = Id::from_request_parts(parts, state).await?;
            let voter = tenant.voter();
            return Ok(Self { tenant: tenant.id, approval_id, voter, origin: tenant.origin });
        }
        let Linked { tenant, approval_id } = Linked::from_request_parts(parts, state).await?;
        let origin = origin::note(parts, Actor::Link);
        Ok(Self { tenant, approval_id, voter: Voter::with_link(), origin })
    }
}

/// Somebody with a link. Its query is not looked at any further: whatever was added to it decides nothing.
struct Linked {
    tenant: TenantId,
    approval_id: ApprovalId,
}

fn suspended() -> Problem {
    Problem::forbidden("The tenant is suspended.")
}

/// An approval as a link shows it, as long as there is something to say about it.
async fn linked(tx: &mut TenantTx, approval_id: ApprovalId) -> Result<ApprovalRecord, Problem> {
    let approval = tx.approval_fetch(approval_id).await?.ok_or_else(Problem::not_found)?;
    if let Some(why) = &approval.void_reason {
        let run_id = RunId(approval.run_id);
        return Err(Problem::expired(format!(
            "This approval is void: {why}. If people were asked anew, there is a newer link; \
             all approvals of the run are at /v1/runs/{run_id}/approvals."
        )));
    }
    match approval.status.as_str() {
        "expired" | "cancelled" => Err(Problem::expired("This approval has expired or was cancelled.")),
        _ => Ok(approval),
    }
}

impl FromRequestParts<AppState> for Linked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let params = Params::from_request_parts(parts, state).await?;
        let token = params.get("token").ok_or_else(Problem::unauthorized)?;
        let Id(approval_id) = Id::<ApprovalId>::from_request_parts(parts, state).await?;
        match looked_up(state, approval_id, token).await? {
            LinkedApproval::Of(tenant) => {
                Held::of(parts).take_place(state, Who::Tenant(tenant)).await?;
                Ok(Self { tenant, approval_id })
            }
            LinkedApproval::Suspended => Err(suspended()),
            LinkedApproval::Expired => Err(Problem::expired("This link has expired.")),
            LinkedApproval::Forged => Err(Problem::not_found()),
        }
    }
}

/// What a link is good for. Whoever asks has no place yet, so few look at a time.
async fn looked_up(state: &AppState, approval: ApprovalId, token: &str) -> Result<LinkedApproval, Problem> {
    if let Some(refused) = state.store.approval_link_refused(token) {
        return Ok(refused);
    }
    let _turn = state.link_lookup().await?;
    Ok(state.store.approval_link(approval, token).await?)
}

/// Whoever opens a link with a browser reads pages, also where something is wrong; all others read documents.
struct Reader {
    wants_page: bool,
}

impl<S: Sync> FromRequestParts<S> for Reader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let kinds =
            accept.unwrap_or_default().split(',').map(|kind| kind.split(';').next().unwrap_or_default());
        let has_no_key = !parts.headers.contains_key(header::AUTHORIZATION);
        Ok(Self { wants_page: has_no_key && kinds.map(str::trim).any(|kind| kind == "text/html") })
    }
}

impl Reader {
    fn sees(&self, answer: Result<Response, Problem>) -> Response {
        match answer {
            Ok(response) => response,
            Err(problem) if self.wants_page && !problem.is_ours() => decision_page::refuse(problem),
            Err(problem) => problem.into_response(),
        }
    }
}

/// The page of a link. Scanners of mail and chat open every link, so nothing but a POST decides.
async fn show(State(state): State<AppState>, reader: Reader, link: Result<Linked, Problem>) -> Response {
    let shown = async {
        let link = link?;
        let mut tx = state.store.tenant(link.tenant).await?;
        Ok(decision_page::ask(&linked(&mut tx, link.approval_id).await?))
    };
    reader.sees(shown.await)
}

async fn decide(
    State(state): State<AppState>,
    reader: Reader,
    decider: Result<Decider, Problem>,
    request: Request,
) -> Response {
    let decided = async {
        let decider = decider?;
        // Nobody else's body is waited for.
        let said = Said::from_request(request, &state).await?;
        decider.is_still_let(&state).await?;
        match said {
            Said::Json(once) => decide_json(&state, decider, *once).await,
            Said::Form(request) => {
                let mut tx = origin::begin(&state, decider.tenant, &decider.origin, None).await?;
                let decided = decider.decide(&mut tx, request).await?;
                tx.commit().await?;
                Ok(decision_page::thank(&decided))
            }
        }
    };
    reader.sees(decided.await)
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
    let decided = decider.decide(&mut first.tx, once.body).await?;
    let answer = crate::problem::Answer::ok(&decided)?;
    Ok(first.answer_with_run(answer, decided.run_id().0).await?.into_response())
}

/// A decision as JSON, or, from the page of a link, as its form: that page works without scripts.
enum Said {
    Json(Box<Once<DecisionRequest>>),
    Form(DecisionRequest),
}

impl FromRequest<AppState> for Said {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        if !is_form(&request) {
            return Once::from_request(request, state).await.map(|once| Self::Json(Box::new(once)));
        }
        let bytes = body::collect(request, MAX_FORM).await?;
        let fields: Vec<_> = url::form_urlencoded::parse(&bytes).into_owned().collect();
        DecisionRequest::of_form(&fields).map(Self::Form)
    }
}

fn is_form(request: &Request) -> bool {
    let kind =
        request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    !request.headers().contains_key(header::AUTHORIZATION)
        && kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
