//! Thousands of schedules are due in the same minute: how late do their runs start, another tenant's, and its requests?

use std::process::ExitCode;
use std::time::{Duration, Instant};

use answerable_load::{Client, Model, Place, Result, Stage, Tenant, Times, play, say};
use chrono::{DateTime, TimeDelta, Timelike as _, Utc};
use clap::Parser;
use futures::stream;
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

/// No new run for so long: all have been started that will be.
const QUIET: Duration = Duration::from_secs(5);

/// How late schedules are that are due in the same minute.
#[derive(Parser)]
#[command(name = "schedules", version)]
struct Cli {
    #[command(flatten)]
    place: Place,
    /// Schedules of the busy tenant.
    #[arg(long, default_value_t = 10_000)]
    schedules: usize,
    /// Minutes from now on in which they are made; then they are due.
    #[arg(long, default_value_t = 3)]
    ahead: i64,
    /// The other tenant's one run must come within so many milliseconds.
    #[arg(long, default_value_t = 500)]
    within_ms: u64,
}

fn main() -> ExitCode {
    play(measure(Cli::parse()))
}

async fn measure(cli: Cli) -> Result<bool> {
    let stage = Stage::open(&cli.place, &[]).await?;
    let model = Model::start(Duration::from_millis(20)).await?;
    let busy = stage.tenant("busy", json!({}), &model).await?;
    let other = stage.tenant("other", json!({}), &model).await?;
    let due = minute(Utc::now()) + TimeDelta::minutes(cli.ahead);
    make(&stage, &busy, due, cli.schedules).await?;
    make(&stage, &other, due, 1).await?;
    let left = (due - Utc::now())
        .to_std()
        .map_err(|_| "they were due before all were made: more --ahead is needed")?;
    tokio::time::sleep(left.saturating_sub(Duration::from_secs(1))).await;
    let asked = ask_until_quiet(&other.client, &busy.client).await?;
    let (late, own) = (lateness(&busy.client, due).await?, lateness(&other.client, due).await?);
    say(format!("schedules: from the due time to the run, of the busy tenant: {late}"));
    say(format!("schedules: the same of the other's one: {own}"));
    say(format!("schedules: requests of the other meanwhile: {asked}"));
    let all = (late.count(), own.count()) == (cli.schedules, 1);
    if !all {
        say("schedules: not every due time gave its run");
    }
    Ok(all && own.percentile(100) < Duration::from_millis(cli.within_ms))
}

/// The minute that a moment is in.
fn minute(at: DateTime<Utc>) -> DateTime<Utc> {
    at - TimeDelta::seconds(i64::from(at.second())) - TimeDelta::nanoseconds(i64::from(at.nanosecond()))
}

/// Makes so many schedules that are due then.
async fn make(stage: &Stage, tenant: &Tenant, due: DateTime<Utc>, many: usize) -> Result<()> {
    let began = Instant::now();
    let model = json!({"provider": "main", "model": "m"});
    let agent = json!({"name": "load", "instructions": "You are measured.", "model": model});
    let agent = tenant.client.post("/v1/agents", &agent).await?;
    let body = json!({"name": "load", "cron": format!("{} {} * * *", due.minute(), due.hour()),
        "run": {"agent_id": agent["id"], "input": "go"}});
    let clients: Vec<Client> = stage.servers.iter().map(|server| tenant.client.at(server.url())).collect();
    let made = stream::iter(0..many).map(|n| {
        let (client, body) = (&clients[n % clients.len()], &body);
        async move { client.post("/v1/schedules", body).await }
    });
    made.buffer_unordered(16).try_for_each(async |_| Ok(())).await?;
    say(format!("schedules: {many} made in {:.1} s", began.elapsed().as_secs_f64()));
    Ok(())
}

/// One tenant reads and starts runs, until the other one has had no new run for a while. Gives how long its requests took.
async fn ask_until_quiet(client: &Client, busy: &Client) -> Result<Times> {
    let model = json!({"provider": "main", "model": "m"});
    let run = json!({"agent": {"name": "a", "instructions": "", "model": model}, "input": "go"});
    let (mut times, mut newest, mut since) = (Times::default(), Value::Null, Instant::now());
    while since.elapsed() < QUIET {
        for body in [None, Some(&run)] {
            let asked = Instant::now();
            match body {
                None => client.get("/v1/schedules").await?,
                Some(body) => client.post("/v1/runs", body).await?,
            };
            times.add(asked.elapsed());
        }
        let page = busy.get("/v1/runs?limit=1").await?;
        if page["data"][0]["id"] != newest {
            (newest, since) = (page["data"][0]["id"].clone(), Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(times)
}

/// How long after the due time a tenant's runs of schedules came.
async fn lateness(client: &Client, due: DateTime<Utc>) -> Result<Times> {
    let (mut times, mut cursor) = (Times::default(), String::new());
    loop {
        let page = client.get(&format!("/v1/runs?limit=200{cursor}")).await?;
        for run in page["data"].as_array().into_iter().flatten().filter(|run| run["schedule_id"].is_string())
        {
            let at = |name: &str| run[name].as_str().and_then(|text| text.parse::<DateTime<Utc>>().ok());
            let (was_due, made) = at("due_at").zip(at("created_at")).ok_or("a run without its times")?;
            if was_due == due {
                times.add((made - due).to_std()?);
            }
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(times),
        }
    }
}
