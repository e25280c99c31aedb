//! Conversations over several runs.

use answerable_core::id::ThreadId;
use answerable_store::{Counted, ThreadDeleted};
use axum::extract::State;

use crate::admit::room_for;
use crate::auth::{RunsRead, RunsWrite, Tenant};
use crate::idempotency::{Once, Turn};
use crate::page::Page;
use crate::path::Id;
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete, get, post};
use crate::shapes::evidence::Message;
use crate::shapes::threads::{Thread, ThreadCreate};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/threads", create),
        get("/v1/threads", list),
        get("/v1/threads/{thread_id}", fetch),
        delete("/v1/threads/{thread_id}", remove),
        get("/v1/threads/{thread_id}/messages", messages),
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
    room_for(&mut first.tx, Counted::Threads).await?;
    let thread = first.tx.thread_create(&once.body.metadata).await?;
    let path = format!("/v1/threads/{}", ThreadId(thread.thread_id));
    first.answer(Answer::created(path, &Thread::from(thread))?).await
}

async fn list(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    page: Page,
) -> Result<Answer, Problem> {
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
    let mut tx = tenant.begin(&state).await?;
    match tx.thread_delete(thread).await? {
        ThreadDeleted::Deleted => tx.commit().await?,
        ThreadDeleted::Busy => return Err(Problem::conflict("A run of this thread has not ended.")),
        ThreadDeleted::Unknown => return Err(Problem::not_found()),
    }
    Ok(Answer::no_content())
}

async fn messages(
    State(state): State<AppState>,
    tenant: Tenant<RunsRead>,
    Id(thread): Id<ThreadId>,
    page: Page,
) -> Result<Answer, Problem> {
    let list = format!("messages:{thread}");
    let after = match page.after(&list)? {
        Some(place) => read_place(place)
            .ok_or_else(|| Problem::invalid_at("/query/cursor", "is no cursor of this list"))?,
        None => (0, 0),
    };
    let mut tx = state.store.tenant(tenant.id).await?;
    tx.thread_fetch(thread).await?.ok_or_else(Problem::not_found)?;
    let rows = tx.thread_message_list(thread, after, page.fetch()).await?;
    page.answer(&list, rows, |(ord, row)| format!("{ord}:{}", row.seq), |(_, row)| Message::from(row))
}

/// A run's place, and the message's in it.
fn read_place(place: &str) -> Option<(i64, i64)> {
    let (run, message) = place.split_once(':')?;
    Some((run.parse().ok()?, message.parse().ok()?))
}
