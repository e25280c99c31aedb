//! Conversations over several runs.

use answerable_core::id::ThreadId;
use answerable_store::ThreadDeleted;
use axum::extract::State;

use crate::auth::{RunsRead, RunsWrite, Tenant};
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete, get, post};
use crate::shapes::threads::{Thread, ThreadCreate};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/threads", create),
        get("/v1/threads", list),
        get("/v1/threads/{thread_id}", fetch),
        delete("/v1/threads/{thread_id}", remove),
    ]
}

async fn create(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    once: Once<ThreadCreate>,
) -> Result<Answer, Problem> {
    let mut first = match once.key.begin(&state, tenant.id).await? {
        Turn::First(first) => first,
        Turn::Replay(replay) => return Ok(replay.answer()),
    };
    let thread = first.tx.thread_create(&once.body.metadata).await?;
    let path = format!("/v1/threads/{}", ThreadId(thread.thread_id));
    first.answer(Answer::created(path, &Thread::from(thread))?).await
}

async fn list(State(state): State<AppState>, tenant: Tenant<RunsRead>, page: Page) -> Result<Answer, Problem> {
    let after = page.after_parsed("threads")?;
    let rows = state.store.tenant(tenant.id).await?.thread_list(after, page.fetch()).await?;
    page.answer("threads", rows, |row| row.ord.to_string(), Thread::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(thread): Id<ThreadId>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.thread_fetch(thread).await?;
    Answer::ok(&row.map(Thread::from).ok_or_else(Problem::not_found)?)
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<RunsWrite>,
    Id(thread): Id<ThreadId>,
) -> Result<Answer, Problem> {
    let mut tx = state.store.tenant(tenant.id).await?;
    match tx.thread_delete(thread).await? {
        ThreadDeleted::Deleted => tx.commit().await?,
        ThreadDeleted::Busy => return Err(Problem::conflict("A run of this thread has not ended.")),
        ThreadDeleted::Unknown => return Err(Problem::not_found()),
    }
    Ok(Answer::no_content())
}
