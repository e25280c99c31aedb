//! Attending a run: what its job says is done to it, at its time, while it goes on.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::ask::{Answer, Ask};
use super::job::Job;
use super::lines::Told;
use super::{LOOK, Office, follow};

/// How long a client stays with one run; what takes longer is looked at in the end.
const STAY: Duration = Duration::from_secs(20);

/// New limit of steps, over the one that such runs begin with.
const MORE_STEPS: u64 = 50;

/// Returns when the run has ended, or has been attended long enough.
pub(super) async fn attend(office: &Office, job: &Job, run_id: &str) {
    let cancelled = async {
        if let Some(delay) = job.cancel_after_ms {
            sleep(Duration::from_millis(delay)).await;
            cancel(office, run_id).await;
        }
    };
    let steered = async {
        if let Some(delay) = job.steer_after_ms {
            sleep(Duration::from_millis(delay)).await;
            steer(office, job, run_id).await;
        }
    };
    let budgeted = async {
        if let Some(delay) = job.budget_after_ms {
            sleep(Duration::from_millis(delay)).await;
            raise(office, run_id).await;
        }
    };
    let followed = async {
        if job.is_followed {
            follow::follow(office, run_id).await;
        }
    };
    let ended = wait(office, run_id);
    tokio::join!(cancelled, steered, budgeted, followed, ended);
}

async fn wait(office: &Office, run_id: &str) {
    let until = Instant::now() + STAY;
    while Instant::now() < until && office.book.is_open(run_id) && !office.look(run_id, until).await {
        sleep(LOOK).await;
    }
}

async fn cancel(office: &Office, run_id: &str) {
    let body = json!({"reason": "the client thought better of it"});
    let ask = Ask::post(format!("/v1/runs/{run_id}/cancel"), body).once(format!("cancel-{run_id}"));
    let Some(answer) = command(office, "cancel", &ask, &[]).await else { return };
    let shown = answer.body["status"].as_str().unwrap_or_default().to_owned();
    office.book.told(Told { what: "cancel".into(), run_id: run_id.into(), shown, ..Told::default() });
    office.book.shown(&answer.body);
}

async fn steer(office: &Office, job: &Job, run_id: &str) {
    let word = format!("And mind {}.", job.key);
    let ask = Ask::post(format!("/v1/runs/{run_id}/messages"), json!({"content": word}));
    // 409: it has ended.
    let Some(answer) = command(office, "steer", &ask.once(format!("steer-{run_id}")), &[409]).await else {
        return;
    };
    let id = answer.body["id"].as_str().unwrap_or_default().to_owned();
    office.book.told(Told { what: "steer".into(), run_id: run_id.into(), id, word, ..Told::default() });
}

async fn raise(office: &Office, run_id: &str) {
    let input = json!({"max_steps": MORE_STEPS});
    let ask = Ask::patch(format!("/v1/runs/{run_id}"), json!({"budgets": input}));
    if command(office, "budget", &ask, &[409]).await.is_some() {
        office.book.told(Told { what: "budget".into(), run_id: run_id.into(), input, ..Told::default() });
    }
}

/// Asks until it is answered. `None`: one of the refusals that may happen, or one that may not, which is noted.
pub(super) async fn command(office: &Office, what: &str, ask: &Ask, refusals: &[u16]) -> Option<Answer> {
    let answer = office.desk.owner.ask(ask).await?;
    if !answer.is_ok() {
        if !refusals.contains(&answer.status) {
            office.book.odd(what, &answer);
        }
        return None;
    }
    Some(answer)
}
