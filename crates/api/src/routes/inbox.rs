//! The inbox: approvals across runs, listed and counted.

use answerable_store::{ApprovalFilter, ApprovalGroup, ApprovalOrder};
use axum::extract::State;

use crate::auth::{ReadOrDecide, Tenant};
use crate::page::{self, Page};
use crate::problem::{Answer, Problem};
use crate::query::Params;
use crate::router::{Route, get};
use crate::shapes::approvals::Approval;
use crate::shapes::inbox::Counts;
use crate::state::AppState;

const STATUSES: [&str; 5] = ["pending", "approved", "denied", "expired", "cancelled"];
const KINDS: [&str; 3] = ["tool_call", "uncertain_effect", "budget"];
const RISKS: [&str; 4] = ["low", "medium", "high", "critical"];

pub(super) fn routes() -> Vec<Route> {
    vec![get("/v1/approvals", list), get("/v1/approvals/counts", counts)]
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    params: Params,
    page: Page,
) -> Result<Answer, Problem> {
    let filter = filter(&params)?;
    let (name, order) = order(&params, &page)?;
    let Some(filter) = filter else { return page::whole(Vec::<Approval>::new()) };
    let found = state.store.tenant(tenant.id).await?.approval_list(&filter, order, page.size()).await?;
    let next = found.next.map(|(expires_at, ord)| match order {
        ApprovalOrder::Newest(_) => ord.to_string(),
        ApprovalOrder::Expiring(_) => Page::named_place(expires_at, &ord.to_string()),
    });
    page.answer_with_next(name, found.approvals, next, Approval::from)
}

async fn counts(
    State(state): State<AppState>,
    tenant: Tenant<ReadOrDecide>,
    params: Params,
) -> Result<Answer, Problem> {
    let group = params.word("group_by", &["status", "kind", "tool_name", "risk", "agent_id"])?;
    let group = group.map(|word| match word {
        "status" => ApprovalGroup::Status,
        "kind" => ApprovalGroup::Kind,
        "tool_name" => ApprovalGroup::ToolName,
        "risk" => ApprovalGroup::Risk,
        _ => ApprovalGroup::Agent,
    });
    let Some(filter) = filter(&params)? else { return Answer::ok(&Counts::of_none()) };
    let counts = state.store.tenant(tenant.id).await?.approval_counts(&filter, group).await?;
    Answer::ok(&Counts::of(counts, group))
}

/// The list's name for its cursors, and its order.
fn order(params: &Params, page: &Page) -> Result<(&'static str, ApprovalOrder), Problem> {
    if params.word("order", &["newest", "expires"])? != Some("expires") {
        return Ok(("approvals", ApprovalOrder::Newest(page.after_parsed("approvals")?)));
    }
    if params.get("status") != Some("pending") {
        return Err(Problem::invalid_at("/query/order", "expires goes with status=pending"));
    }
    let name = "approvals by expiry";
    let place = page.after_named(name)?.map(|(at, ord)| Some((at, ord.parse().ok()?)));
    match place {
        Some(None) => Err(Problem::invalid_at("/query/cursor", "is no cursor of this list")),
        place => Ok((name, ApprovalOrder::Expiring(place.flatten()))),
    }
}

/// Which approvals are asked for. `None`: what can't be an id matches nothing.
fn filter(params: &Params) -> Result<Option<ApprovalFilter>, Problem> {
    let word =
        |name: &str, words: &[&'static str]| params.word(name, words).map(|word| word.map(str::to_owned));
    let text = |name: &str| params.get(name).map(str::to_owned);
    let filter = ApprovalFilter {
        status: word("status", &STATUSES)?,
        kind: word("kind", &KINDS)?,
        tool_name: text("tool_name"),
        risk: word("risk", &RISKS)?,
        expires_before: params.time("expires_before")?,
        created_before: params.time("created_before")?,
        created_after: params.time("created_after")?,
        decided_by: text("decided_by"),
        ..ApprovalFilter::default()
    };
    Ok(match (params.id("run_id"), params.id("thread_id"), params.id("agent_id")) {
        (Ok(run_id), Ok(thread_id), Ok(agent_id)) => {
            Some(ApprovalFilter { run_id, thread_id, agent_id, ..filter })
        }
        _ => None,
    })
}
