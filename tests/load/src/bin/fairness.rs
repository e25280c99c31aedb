//! One tenant has thousands of runs queued; how long does another one's new run wait for its start?

use std::process::ExitCode;
use std::time::{Duration, Instant};

use answerable_load::{Client, Model, Place, Result, Stage, Tenant, Times, play, say, started};
use chrono::{DateTime, Utc};
use clap::Parser;
use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};

/// How long another tenant's new run waits for its start beside a tenant with thousands of queued runs.
#[derive(Parser)]
#[command(name = "fairness", version)]
struct Cli {
    #[command(flatten)]
    place: Place,
    /// Runs that the busy tenant has queued.
    #[arg(long, default_value_t = 10_000)]
    queued: usize,
    /// New runs of the other one, one at a time.
    #[arg(long, default_value_t = 200)]
    probes: usize,
    /// Pause between two of them, in milliseconds.
    #[arg(long, default_value_t = 50)]
    pause_ms: u64,
    /// Weights of the two tenants, as `1:4`.
    #[arg(long, default_value = "1:1", value_parser = weights)]
    weights: (u32, u32),
    /// Runs that a server works on at once; its own default where it is absent.
    #[arg(long)]
    running: Option<u32>,
    /// How long the model takes, in milliseconds.
    #[arg(long, default_value_t = 20)]
    model_ms: u64,
    /// 99 of 100 starts must come within so many milliseconds.
    #[arg(long, default_value_t = 200)]
    within_ms: u64,
}

fn weights(text: &str) -> std::result::Result<(u32, u32), String> {
    let pair = text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pair.ok_or_else(|| "two whole numbers with a colon between them are needed".to_owned())
}

fn main() -> ExitCode {
    play(measure(Cli::parse()))
}

async fn measure(cli: Cli) -> Result<bool> {
    let running = cli.running.map(|running| running.to_string());
    let settings: Vec<_> =
        running.iter().map(|running| ("ANSWERABLE_MAX_RUNNING", running.as_str())).collect();
    let stage = Stage::open(&cli.place, &settings).await?;
    let model = Model::start(Duration::from_millis(cli.model_ms)).await?;
    let quotas = json!({"weight": cli.weights.0, "max_concurrent_runs": 1});
    let busy = stage.tenant("busy", quotas, &model).await?;
    let other = stage.tenant("other", json!({"weight": cli.weights.1}), &model).await?;
    let agent = agent_of(&busy).await?;
    let own_agent = agent_of(&other).await?;
    let alone = probe(&stage, &other.client, &own_agent, &cli).await?;
    alone.tell("with nobody beside");
    fill(&stage, &busy, &agent, cli.queued).await?;
    let lifted = json!({"quotas": {"max_concurrent_runs": null}});
    stage.operator.patch(&format!("/v1/tenants/{}", busy.id), &lifted).await?;
    let (asked, since) = (model.asked(), Instant::now());
    let times = probe(&stage, &other.client, &own_agent, &cli).await?;
    let took = since.elapsed().as_secs_f64();
    let left = queued(&busy.client).await?;
    let per_second = (model.asked() - asked) as f64 / took;
    times.tell(&format!("at weights {}:{}", cli.weights.0, cli.weights.1));
    say(format!("fairness: {per_second:.0} runs a second meanwhile; the busy tenant still {}", has(left)));
    if !left {
        say(
            "fairness: nothing was queued at the end, so the last ones had no one beside them: more --queued is needed",
        );
    }
    Ok(left && times.seen.percentile(99) < Duration::from_millis(cli.within_ms))
}

fn has(left: bool) -> &'static str {
    if left { "has runs queued" } else { "has none queued" }
}

/// How long runs waited for their start.
#[derive(Default)]
struct Waited {
    /// From the answer to the event, as a client sees it.
    seen: Times,
    /// From the acceptance to the start, by the database's clock.
    written: Times,
}

impl Waited {
    fn tell(&self, when: &str) {
        say(format!("fairness: {when}, from the answer to the event: {}", self.seen));
        say(format!("fairness: {when}, from acceptance to start:     {}", self.written));
    }
}

async fn agent_of(tenant: &Tenant) -> Result<String> {
    let model = json!({"provider": "main", "model": "m"});
    let agent = json!({"name": "load", "instructions": "You are measured.", "model": model});
    let agent = tenant.client.post("/v1/agents", &agent).await?;
    Ok(agent["id"].as_str().ok_or("an agent without an id")?.to_owned())
}

/// Queues so many runs. Until all are there, only one at a time is worked on.
async fn fill(stage: &Stage, tenant: &Tenant, agent: &str, runs: usize) -> Result<()> {
    let began = Instant::now();
    let body = json!({"agent_id": agent, "input": "go"});
    let clients: Vec<Client> = stage.servers.iter().map(|server| tenant.client.at(server.url())).collect();
    let mut accepted = stream::iter(0..runs)
        .map(|n| {
            let (client, body) = (&clients[n % clients.len()], &body);
            async move { client.post("/v1/runs", body).await }
        })
        .buffer_unordered(16);
    while let Some(answer) = accepted.next().await {
        answer?;
    }
    say(format!("fairness: {runs} runs accepted in {:.1} s", began.elapsed().as_secs_f64()));
    Ok(())
}

/// New runs, one at a time, at one server after another.
async fn probe(stage: &Stage, client: &Client, agent: &str, cli: &Cli) -> Result<Waited> {
    let mut waited = Waited::default();
    let body = json!({"agent_id": agent, "input": "go"});
    for n in 0..cli.probes {
        let client = client.at(stage.servers[n % stage.servers.len()].url());
        let run = client.post("/v1/runs", &body).await?;
        let since = Instant::now();
        let id = run["id"].as_str().ok_or("a run without an id")?;
        started(&client, id).await?;
        waited.seen.add(since.elapsed());
        let run = client.get(&format!("/v1/runs/{id}")).await?;
        waited.written.add((time(&run["started_at"])? - time(&run["created_at"])?).to_std()?);
        tokio::time::sleep(Duration::from_millis(cli.pause_ms)).await;
    }
    Ok(waited)
}

fn time(text: &Value) -> Result<DateTime<Utc>> {
    Ok(text.as_str().ok_or("no time")?.parse()?)
}

/// Whether the tenant has queued runs.
async fn queued(client: &Client) -> Result<bool> {
    let page = client.get("/v1/runs?status=queued&limit=1").await?;
    Ok(page["data"].as_array().is_some_and(|runs: &Vec<Value>| !runs.is_empty()))
}
