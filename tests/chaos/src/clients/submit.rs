//! Starting runs: one request with one key, until it is answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::time::sleep;

use super::ask::Ask;
use super::job::Job;
use super::lines::Accepted;
use super::{LOOK, Office, attend};
use crate::witness::now_ms;

/// A client's life: a job, its run, the next job.
pub(super) async fn work(office: Arc<Office>) {
    loop {
        if office.is_paused() {
            sleep(LOOK).await;
            continue;
        }
        office.out.fetch_add(1, Ordering::SeqCst);
        // Between the look and the count somebody may have said that it is over.
        if !office.is_paused() {
            let n = office.next.fetch_add(1, Ordering::SeqCst);
            let job = Job::draw(office.settings.seed, n);
            let run = submit(&office, &job).await;
            office.out.fetch_sub(1, Ordering::SeqCst);
            if let Some(run_id) = run {
                attend::attend(&office, &job, &run_id).await;
            }
        } else {
            office.out.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Starts the run of a job; its id.
pub(super) async fn submit(office: &Office, job: &Job) -> Option<String> {
    let thread = if job.in_thread { thread(office, &job.key).await } else { None };
    let body = job.body(&office.desk.agent_id, thread.as_deref());
    let ask = Ask::post("/v1/runs", body).once(&job.key).waiting(job.prefer_wait);
    let asked_ms = now_ms();
    let answer = office.desk.owner.ask(&ask).await?;
    let run_id = answer.body["id"].as_str().unwrap_or_default().to_owned();
    if answer.status != 201 || run_id.is_empty() {
        office.book.odd(&format!("POST /v1/runs for {}", job.script.tag), &answer);
        return None;
    }
    let (tag, kind, key) = (job.script.tag.clone(), job.script.kind.clone(), job.key.clone());
    let accepted = Accepted { at_ms: now_ms(), asked_ms, tag, kind, key, run_id: run_id.clone() };
    office.book.accepted(accepted).await.ok()?;
    office.book.shown(&answer.body);
    Some(run_id)
}

async fn thread(office: &Office, key: &str) -> Option<String> {
    if let Some(thread) = office.book.thread() {
        return Some(thread);
    }
    let answer =
        office.desk.owner.ask(&Ask::post("/v1/threads", json!({})).once(format!("thread-{key}"))).await?;
    let id = answer.body["id"].as_str()?.to_owned();
    office.book.new_thread(&id);
    Some(id)
}
