//! Plays a round.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::findings::{self, Finding};
use super::outside::Outside;
use super::plan::Plan;
use super::tally::Tally;
use super::{Options, SERVERS, say};
use crate::clients::{Clients, Endpoints, Settings};
use crate::faults::{Fault, Scene, Told};
use crate::oracle;
use crate::report::Report;
use crate::stage::{Error, Launch, Plot, RECOVERY, Result, Stage, millis};
use crate::witness::drawn;

/// How long one fault may take; the longest waits a minute and a half for six deaths.
const LONGEST: Duration = Duration::from_secs(150);
/// How long the first start of the servers may take.
const START: Duration = Duration::from_secs(60);
/// How long the clients may take to see the ends of their runs.
const LAST_RUNS: Duration = Duration::from_secs(120);

/// What came of a round.
#[derive(Debug)]
pub struct Outcome {
    /// What the judge says.
    pub report: Report,
    /// What the stage saw.
    pub findings: Vec<Finding>,
    /// What each kind of fault did.
    pub tally: Tally,
}

impl Outcome {
    /// Checks that are red.
    pub fn red(&self) -> Vec<String> {
        let mut red: Vec<String> = self.findings.iter().map(|finding| finding.check.to_owned()).collect();
        red.extend(self.report.red());
        red.sort_unstable();
        red.dedup();
        red
    }

    /// Whether every promise was kept.
    pub fn is_green(&self) -> bool {
        self.findings.is_empty() && self.report.is_green()
    }
}

/// A round that is being played.
struct Round<'r> {
    options: &'r Options,
    stage: Stage,
    outside: Outside,
    clients: Clients,
    begun: Instant,
    findings: Vec<Finding>,
    tally: Tally,
}

/// Plays a round and judges it.
///
/// # Errors
/// The stage itself broke: nothing can be said about the service.
pub async fn play(options: &Options) -> Result<Outcome> {
    fs::create_dir_all(&options.dir).map_err(Error::io(options.dir.display().to_string()))?;
    let mut round = Round::begin(options).await?;
    tokio::time::sleep(options.calm).await;
    round.break_things().await?;
    round.end().await
}

impl<'r> Round<'r> {
    async fn begin(options: &'r Options) -> Result<Self> {
        let plot = Plot {
            dir: options.dir.clone(),
            servers: SERVERS,
            lease: options.lease,
            durable: options.durable,
            without: options.without.clone(),
        };
        let outside = Outside::start(&options.program, &options.dir, options.seed).await?;
        let stage = Stage::set(&plot).await?;
        let late = stage.not_ready(START).await;
        if !late.is_empty() {
            return Err(Error::says(format!(
                "servers {late:?} don't start; see their logs in {}",
                plot.dir.display()
            )));
        }
        let settings = Settings {
            dir: options.dir.clone(),
            seed: options.seed,
            endpoints: Endpoints::of(stage.urls()),
            operator_key: stage.operator_key.clone(),
            tools_url: outside.addresses.tools.clone(),
            model_url: outside.addresses.model.clone(),
            at_once: options.runs_at_once,
        };
        let clients = Clients::start(settings).await.map_err(|error| Error::says(error.to_string()))?;
        Ok(Self {
            options,
            stage,
            outside,
            clients,
            begun: Instant::now(),
            findings: Vec::new(),
            tally: Tally::default(),
        })
    }

    async fn break_things(&mut self) -> Result<()> {
        let options = self.options;
        let until = Instant::now() + options.length;
        let plan = Plan::new(options.seed, options.faults.clone(), options.in_order);
        for (n, fault) in (0..).zip(plan) {
            if !options.in_order && Instant::now() >= until {
                break;
            }
            // Where it shall be brief, the runs of the last fault are those that are under way.
            if options.brief && usize::try_from(n).is_ok_and(|n| n + 1 == options.faults.len()) {
                self.clients.pause();
            }
            self.one(n, fault).await?;
        }
        Ok(())
    }

    async fn one(&mut self, n: u64, fault: Fault) -> Result<()> {
        self.outside.check()?;
        let (at, runs, broken) =
            (self.begun.elapsed().as_secs(), self.clients.accepted(), self.findings.len());
        let told = self.make(n, fault).await?;
        let healed = Instant::now();
        let late = self.stage.not_ready(RECOVERY).await;
        let recovery = healed.elapsed();
        let (how, words) = word(&told);
        say(format!("{at:>4} s  {:<16} {how}{words}", fault.name));
        match told {
            Told::Failed(words) => self.find("fault", format!("{}: {words}", fault.name)),
            Told::Done(_) | Told::Skipped(_) => {}
        }
        if !late.is_empty() {
            self.find(
                "recovery",
                format!("after {}: servers {late:?} not ready within {RECOVERY:?}", fault.name),
            );
        }
        self.stage.journal.note("calm", json!({"n": n, "recovered_in_ms": millis(recovery)}));
        if !how.starts_with("skipped") {
            let (runs, broken) = (self.clients.accepted() - runs, self.findings.len() - broken);
            self.tally.add(fault.name, runs, recovery, broken);
            self.rest(n).await;
        }
        Ok(())
    }

    async fn make(&self, n: u64, fault: Fault) -> Result<Told> {
        self.stage.journal.note("fault.begin", json!({"n": n, "fault": fault.name}));
        let seed = drawn(self.options.seed, &["fault", &n.to_string()]);
        let mut scene = Scene::new(&self.stage, &self.clients, seed, self.options.brief);
        let told = tokio::time::timeout(LONGEST, fault.run(&mut scene)).await;
        let told = told.map_err(|_| Error::says(format!("the fault {} takes too long", fault.name)))??;
        self.stage.heal().await?;
        let (how, words) = word(&told);
        let how = if how.is_empty() { "done" } else { how.trim_end_matches(": ") };
        self.stage.journal.note("fault.end", json!({"n": n, "fault": fault.name, "how": how, "told": words}));
        Ok(told)
    }

    /// A calm moment, in which what waits gets on.
    async fn rest(&self, n: u64) {
        let usual = 1000 + drawn(self.options.seed, &["calm", &n.to_string()]) % 2500;
        let pause = if self.options.brief { 400 } else { usual };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    fn find(&mut self, check: &'static str, detail: String) {
        say(format!("        broken: {check}: {detail}"));
        self.findings.push(findings::note(&self.stage, check, detail));
    }

    async fn end(mut self) -> Result<Outcome> {
        say(format!("{:>4} s  all healed; waiting for the runs to end", self.begun.elapsed().as_secs()));
        self.stage.heal().await?;
        // Whatever a server was started with to suffer ends with its life. Where nobody suffered, nobody shall.
        if self.tally.count() > 0 {
            self.stage.servers.iter().for_each(|server| server.restart(Launch::default()));
        }
        let late = self.stage.not_ready(RECOVERY).await;
        if !late.is_empty() {
            self.find("recovery", format!("at the end: servers {late:?} not ready within {RECOVERY:?}"));
        }
        self.clients.finish(LAST_RUNS).await;
        self.outside.check()?;
        let judged = oracle::judge(&self.options.dir, &self.clients).await;
        let report = judged.map_err(|error| Error::says(error.to_string()))?;
        self.findings.extend(findings::at_the_end(&self.stage));
        Ok(Outcome { report, findings: self.findings, tally: self.tally })
    }
}

/// How it went, if not as usual, and what happened.
fn word(told: &Told) -> (&'static str, &str) {
    match told {
        Told::Done(words) => ("", words),
        Told::Skipped(words) => ("skipped: ", words),
        Told::Failed(words) => ("failed: ", words),
    }
}
