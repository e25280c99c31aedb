//! What is seen of a play once it is over.

use std::time::{Duration, Instant};

use answerable_evals::{Observed, Shown};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::follow::{Follow, Trouble, is_terminal, word};
use super::setup::Setup;
use crate::cli::remote::Api;
use crate::timeline::Timeline;

/// How long outcomes that come in after the end are waited for.
const LATE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// Most events of a run that are told.
const MOST_EVENTS: usize = 400;

/// All that was seen.
pub(super) async fn look(follow: &Follow<'_>, took: Duration) -> Result<Observed, Trouble> {
    let (setup, api) = (follow.setup, &follow.setup.guest.api);
    let ended = is_terminal(&follow.look().await?);
    let mut observed = Observed { took, ..Observed::default() };
    for id in &follow.runs {
        observed.ledger.extend(ledger(api, id, ended).await?);
        observed.approvals.extend(list(api, id, "approvals").await?);
        observed.artifacts.extend(list(api, id, "artifacts").await?);
    }
    observed.steps = list(api, follow.run(), "steps").await?;
    observed.run = follow.look().await?;
    if !setup.asks_world() {
        observed.shown = vec![told(setup, list(api, follow.run(), "messages").await?)];
    }
    let seen = setup.world.stage().seen();
    if setup.asks_world() {
        observed.shown = seen.shown.clone();
        observed.model_requests = Some(seen.model_requests());
    }
    observed.tools = (!setup.is_live()).then(|| seen.answers.traffic());
    observed.troubles = seen.troubles.clone();
    Ok(observed)
}

/// A run's ledger; of one that has ended, when nothing in it is open any more.
async fn ledger(api: &Api, run: &str, ended: bool) -> Result<Vec<Value>, Trouble> {
    let begun = Instant::now();
    loop {
        let ledger = list(api, run, "ledger").await?;
        let is_open = ledger.iter().any(|entry| word(entry, "status") == "started");
        if !ended || !is_open || begun.elapsed() > LATE {
            return Ok(ledger);
        }
        sleep(PAUSE).await;
    }
}

/// What a model was shown whose requests were not seen: the agent's instructions and the run's messages.
fn told(setup: Setup<'_>, messages: Vec<Value>) -> Shown {
    let instructions = setup.case.agent.get("instructions").cloned().unwrap_or_default();
    let mut all = vec![json!({"role": "system", "content": instructions})];
    all.extend(messages);
    Shown::of(&all)
}

/// What happened in the runs, line by line.
pub(super) async fn story(follow: &Follow<'_>) -> Result<Vec<String>, Trouble> {
    let mut lines = Vec::new();
    for id in &follow.runs {
        let mut timeline = Timeline::new(false);
        let events = list(&follow.setup.guest.api, id, "events").await?;
        lines.extend(events.iter().take(MOST_EVENTS).filter_map(|event| timeline.line(event)));
    }
    lines.push(Timeline::new(false).summary(&follow.look().await?));
    Ok(lines)
}

/// All of one of a run's lists.
async fn list(api: &Api, run: &str, what: &str) -> Result<Vec<Value>, Trouble> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut url = api.url(&["v1", "runs", run, what]);
        url.query_pairs_mut().append_pair("limit", "200");
        if let Some(cursor) = &cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        let page = api.send(Method::GET, url, None, &[]).await?;
        all.extend(page.get("data").and_then(Value::as_array).into_iter().flatten().cloned());
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(all),
        }
    }
}
