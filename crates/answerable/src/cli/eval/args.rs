//! What `answerable eval` may be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use secrecy::SecretString;

use super::live::{LiveArgs, LiveModel};
use crate::Failure;

/// Which cases, how, where, and what is written.
#[derive(Args)]
pub(super) struct PlayArgs {
    /// Files of cases (.yaml, .yml, .json), and folders of them
    #[arg(required = true, value_name = "CASES")]
    pub(super) cases: Vec<PathBuf>,
    /// Only cases with this word in their name or path; may be given again
    #[arg(short = 'k', long = "filter", value_name = "WORD")]
    pub(super) filter: Vec<String>,
    /// Only cases with this tag; may be given again
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Vec<String>,
    /// Play each case so often
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) repeat: u16,
    /// Share of a case's plays that must pass, 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 1.0, value_parser = rate)]
    pub(super) pass_rate: f64,
    /// Plays at a time [default: as many as this machine has cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) jobs: Option<u16>,
    /// Seconds that one play may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) timeout: u32,
    /// Begin no other case once one has failed
    #[arg(long)]
    pub(super) fail_fast: bool,
    /// Tell what happened in the runs of cases that fail
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Write a report for CI systems
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Write a report for programs
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[command(flatten)]
    pub(super) live: LiveArgs,
    /// Call the agents' real tools in the place of the cases' answers
    #[arg(long, value_name = "WHICH", value_parser = ["live"], help_heading = "Real models and tools")]
    pub(super) tools: Option<String>,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Which server the cases are played on.
#[derive(Args)]
pub(super) struct ServerArgs {
    /// Play on this server in the place of one of its own
    #[arg(long, env = "ANSWERABLE_URL", value_name = "URL", help_heading = "Server")]
    pub(super) url: Option<String>,
    /// With --url: key of a tenant with the scope admin. With ANSWERABLE_OPERATOR_KEY it is not needed: each play then
    /// has a tenant of its own
    #[arg(
        long,
        env = "ANSWERABLE_API_KEY",
        value_name = "KEY",
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub(super) api_key: Option<String>,
    /// With --url and a tenant's key: leave the runs there
    #[arg(long, requires = "url", help_heading = "Server")]
    pub(super) keep: bool,
}

/// How cases are played.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) repeat: usize,
    pub(super) pass_rate: f64,
    pub(super) jobs: usize,
    pub(super) time_limit: Duration,
    pub(super) fail_fast: bool,
    pub(super) verbose: bool,
    pub(super) live_model: Option<LiveModel>,
    pub(super) live_tools: bool,
    pub(super) keep: bool,
    /// What nobody may be told.
    pub(super) secrets: Vec<SecretString>,
}

impl PlayArgs {
    /// What was asked for, as the plays need it.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let live_model = self.live.model()?;
        if live_model.as_ref().is_some_and(|live| live.stored().is_some()) && self.server.url.is_none() {
            return Err(Failure::misconfigured(
                "--provider is no URL; a provider by its name is one of --url's",
            ));
        }
        let cores = || std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Options {
            repeat: self.repeat.into(),
            pass_rate: self.pass_rate,
            jobs: self.jobs.map_or_else(cores, usize::from),
            time_limit: Duration::from_secs(self.timeout.into()),
            fail_fast: self.fail_fast,
            verbose: self.verbose,
            live_model,
            live_tools: self.tools.is_some(),
            keep: self.server.keep,
            secrets: Vec::new(),
        })
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate));
    rate.ok_or_else(|| "a number from 0 to 1 is needed".to_owned())
}
