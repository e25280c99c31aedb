//! Thousands of event streams are open at one server; what do they cost it, and do they all hear what happens?

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use answerable_load::{Client, Model, Place, Result, Stage, Tenant, Times, play, say};
use chrono::{SecondsFormat, TimeDelta, Utc};
use clap::Parser;
use futures::StreamExt as _;
use futures::stream;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// What thousands of open streams cost a server.
#[derive(Parser)]
#[command(name = "streams", version)]
struct Cli {
    #[command(flatten)]
    place: Place,
    /// Streams that are opened, all at the first server.
    #[arg(long, default_value_t = 10_000)]
    streams: usize,
    /// Tenants that they belong to.
    #[arg(long, default_value_t = 1)]
    tenants: usize,
    /// Runs of each tenant that they watch.
    #[arg(long, default_value_t = 50)]
    runs: usize,
    /// Requests that another tenant makes meanwhile.
    #[arg(long, default_value_t = 500)]
    probes: usize,
    /// Most memory that a stream may take, in KiB.
    #[arg(long, default_value_t = 64)]
    kib_each: u64,
    /// 99 of 100 requests of the other tenant must be answered within so many milliseconds.
    #[arg(long, default_value_t = 200)]
    within_ms: u64,
}

/// Connections from one source address: each has a port of its own.
const FROM_ONE: usize = 5000;
/// Streams that are being opened at a time.
const OPENING: usize = 64;
/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    play(measure(Cli::parse()))
}

async fn measure(cli: Cli) -> Result<bool> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let stage = Stage::open(&cli.place, &[]).await?;
    let server = stage.servers.first().ok_or("no server")?;
    let address: SocketAddr = server.url().trim_start_matches("http://").parse()?;
    let model = Model::start(Duration::ZERO).await?;
    let other = stage.tenant("other", json!({}), &model).await?;
    let mut tenants = Vec::new();
    for number in 0..cli.tenants {
        tenants.push(watched(&stage, &model, &format!("watcher {number}"), cli.runs).await?);
    }
    let alone = probe(&other.client, cli.probes).await?;
    say(format!("streams: requests of another tenant with none open: {alone}"));
    let before = resident_kib(server.pid())?;

    let began = Instant::now();
    let paths: Vec<_> =
        tenants.iter().flat_map(|(tenant, runs)| runs.iter().map(move |run| (tenant, run))).collect();
    let opening = (0..cli.streams).map(|number| {
        let (tenant, run) = paths.get(number % paths.len()).copied().unzip();
        async move { open(address, number, tenant.ok_or("no tenant")?, run.ok_or("no run")?).await }
    });
    let open: Vec<Result<TcpStream>> = stream::iter(opening).buffer_unordered(OPENING).collect().await;
    let open: Vec<TcpStream> = open.into_iter().collect::<Result<_>>()?;
    say(format!("streams: {} open after {:.1} s", open.len(), began.elapsed().as_secs_f64()));

    let during = probe(&other.client, cli.probes).await?;
    say(format!("streams: requests of another tenant meanwhile: {during}"));
    let used = fewest_connections(server.url()).await?;
    let after = resident_kib(server.pid())?;
    let each = after.saturating_sub(before) / (cli.streams as u64).max(1);
    say(format!(
        "streams: {} MiB resident before and {} MiB with them, {each} KiB for each; {used} connections to the database in use",
        before / 1024,
        after / 1024
    ));

    let hearing = tokio::spawn(hear_all(open));
    for (tenant, runs) in &tenants {
        for run in runs {
            tenant.client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await?;
        }
    }
    let heard = hearing.await?;
    say(format!("streams: {} heard of the end: {heard}", heard.count()));

    let within = Duration::from_millis(cli.within_ms);
    Ok(heard.count() == cli.streams && each <= cli.kib_each && used <= 2 && during.percentile(99) <= within)
}

/// A tenant with runs that don't begin within this hour.
async fn watched(stage: &Stage, model: &Model, name: &str, runs: usize) -> Result<(Tenant, Vec<String>)> {
    let tenant = stage.tenant(name, json!({}), model).await?;
    let later = (Utc::now() + TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Millis, true);
    let agent =
        json!({"name": "watched", "instructions": "Wait.", "model": {"provider": "main", "model": "m"}});
    let body = json!({"agent": agent, "input": "go", "not_before": later});
    let mut ids = Vec::new();
    for _ in 0..runs {
        let run = tenant.client.post("/v1/runs", &body).await?;
        ids.push(run["id"].as_str().ok_or("a run without an id")?.to_owned());
    }
    Ok((tenant, ids))
}

/// Opens a stream, and returns when its first event has come.
async fn open(address: SocketAddr, number: usize, tenant: &Tenant, run: &str) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let from = u8::try_from(number / FROM_ONE + 1).map_err(|_| "too many streams")?;
    socket.bind(SocketAddr::new(Ipv4Addr::new(127, 0, 0, from).into(), 0))?;
    let mut stream = socket.connect(address).await?;
    let request = tenant.client.request(Method::GET, "").build()?;
    let key = request.headers().get("authorization").and_then(|value| value.to_str().ok()).ok_or("no key")?;
    let head = format!(
        "GET /v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nAccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let begun = until(&mut stream, "event: run.queued\n").await;
    if begun { Ok(stream) } else { Err(format!("stream {number} was not opened").into()) }
}

/// When those hear it who hear that their runs are cancelled, counted from now.
async fn hear_all(open: Vec<TcpStream>) -> Times {
    let began = Instant::now();
    let hearing = open.into_iter().map(|mut stream| async move {
        until(&mut stream, "event: run.cancelled\n").await.then(|| began.elapsed())
    });
    futures::future::join_all(hearing).await.into_iter().flatten().collect()
}

/// Whether these words come before the end.
async fn until(stream: &mut TcpStream, words: &str) -> bool {
    let reading = async {
        let (mut all, mut piece) = (Vec::new(), [0; 2048]);
        while let Ok(count @ 1..) = stream.read(&mut piece).await {
            all.extend(piece.iter().take(count));
            if String::from_utf8_lossy(&all).contains(words) {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or(false)
}

/// How long requests take, one after the other: half of them write.
async fn probe(client: &Client, many: usize) -> Result<Times> {
    let mut times = Vec::new();
    for number in 0..many {
        let began = Instant::now();
        match number % 2 {
            0 => client.post("/v1/threads", &json!({})).await?,
            _ => client.get("/v1/threads?limit=5").await?,
        };
        times.push(began.elapsed());
    }
    Ok(times.into_iter().collect())
}

/// Connections to the database that a server has in use, at the quietest of some moments: streams look now and then whether
/// they have missed anything, and none may hold one in between.
async fn fewest_connections(url: &str) -> Result<u64> {
    let mut fewest = u64::MAX;
    for _ in 0..20 {
        let text = reqwest::Client::new().get(format!("{url}/metrics")).send().await?.text().await?;
        let line = text
            .lines()
            .find(|line| line.starts_with("answerable_db_connections{") && line.contains("\"used\""));
        let used =
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).ok_or("no gauge of connections")?;
        fewest = fewest.min(used);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(fewest)
}

/// Memory of a process that is resident, in KiB.
fn resident_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
