//! `answerable eval`.

mod act;
mod args;
mod files;
mod follow;
mod live;
mod local;
mod look;
mod many;
mod new;
mod place;
mod play;
mod setup;
mod world;

use std::path::{Path, PathBuf};

use answerable_evals::report::{Report, Verdict, summary, to_json, to_junit};
use clap::{Args, Subcommand};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use self::args::{Options, PlayArgs, ServerArgs};
use self::files::{Filter, Found};
use self::live::LiveModel;
use self::local::LocalServer;
use self::place::Place;
use super::bootstrap::kept_key;
use super::output::{complain, say};
use super::remote::{Api, base, is_here};
use super::shutdown;
use crate::Failure;

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Plays cases: an agent, what it is asked, what its model and its tools say, and what must hold then. \
Without --url it does so on a server of its own, with a private PostgreSQL (14 or newer must be on this \
machine) that is gone afterwards. docs/evals.md has the format.

Exit status: 0 all passed, 1 a case failed, 2 wrong arguments, a case that can't be read, or nothing \
could be played.

Examples:
  answerable eval evals/
  answerable eval evals/ -k refund --verbose
  answerable eval evals/ --junit report.xml --json report.json
  OPENAI_API_KEY=… answerable eval evals/ --model gpt-x --repeat 10 --pass-rate 0.9
  answerable eval new run_0198c0de --out evals/refund.yaml"
)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    command: Option<EvalCommand>,
    #[command(flatten)]
    play: PlayArgs,
}

#[derive(Subcommand)]
enum EvalCommand {
    /// Make a case out of a run
    New(new::NewArgs),
}

pub(crate) async fn eval(args: EvalArgs) -> Result<(), Failure> {
    match args.command {
        Some(EvalCommand::New(args)) => new::new(args).await,
        None => play(args.play).await,
    }
}

async fn play(args: PlayArgs) -> Result<(), Failure> {
    let mut options = args.options()?;
    let found = files::find(&args.cases, &Filter { words: &args.filter, tags: &args.tag })?;
    options.secrets = secrets(&found, &options);
    for path in [&args.junit, &args.json].into_iter().flatten() {
        make_room(path)?;
    }
    let interrupted = CancellationToken::new();
    let listening = tokio::spawn({
        let interrupted = interrupted.clone();
        async move {
            let heard = shutdown::requested().await;
            interrupted.cancel();
            heard
        }
    });
    let played = on_server(&args.server, found, options, &interrupted).await;
    listening.abort();
    if interrupted.is_cancelled() {
        complain("answerable: interrupted");
        return Err(Failure::silent(130));
    }
    // Whatever kept the cases from being played, it was not a case that failed.
    let report = played.map_err(|failure| match failure.message() {
        Some(message) => Failure::misconfigured(message),
        None => failure,
    })?;
    tell(&report, &args)
}

/// What nobody may be told: keys and secrets that come from the environment.
fn secrets(found: &[Found], options: &Options) -> Vec<SecretString> {
    let key = options.live_model.as_ref().and_then(LiveModel::key).map(str::to_owned);
    let named = found.iter().flat_map(|one| &one.case.secrets).filter_map(|(name, secret)| match secret {
        answerable_evals::case::Secret::Env(_) => setup::value(name, secret).ok(),
        answerable_evals::case::Secret::Made(_) => None,
    });
    key.into_iter().chain(named).map(SecretString::from).collect()
}

async fn on_server(
    args: &ServerArgs,
    found: Vec<Found>,
    options: Options,
    interrupted: &CancellationToken,
) -> Result<Report, Failure> {
    let url = args.url.as_deref().filter(|url| !url.trim().is_empty());
    if let Some(url) = url {
        let place = elsewhere(url, args, &options).await?;
        return many::play_all(found, place, options, interrupted).await;
    }
    let server = LocalServer::start().await?;
    let place = Place::own(server.operator.clone());
    let played = many::play_all(found, place, options, interrupted).await;
    let ended = server.end().await;
    let report = played?;
    ended.map(|()| report)
}

/// Somebody's server, with the operator's key if it is set, else with a tenant's. A provider of the key's tenant can only
/// be used in that tenant.
async fn elsewhere(url: &str, args: &ServerArgs, options: &Options) -> Result<Place, Failure> {
    let base = base(url)?;
    let is_stored = options.live_model.as_ref().is_some_and(|live| live.stored().is_some());
    let set = |text: Option<String>| text.filter(|text| !text.trim().is_empty()).map(SecretString::from);
    let operator = set(std::env::var("ANSWERABLE_OPERATOR_KEY").ok()).filter(|_| !is_stored);
    let is_operator = operator.is_some();
    let kept = || if is_here(&base) { kept_key() } else { None };
    let key = operator.or_else(|| set(args.api_key.clone())).or_else(kept).ok_or_else(|| {
        Failure::misconfigured("no key for the server: set ANSWERABLE_OPERATOR_KEY or ANSWERABLE_API_KEY")
    })?;
    Place::elsewhere(Api::new(&base, key)?, is_operator, is_here(&base)).await
}

/// Sees to it, before anything is played, that a report can be written.
fn make_room(path: &Path) -> Result<(), Failure> {
    let bad = |error: std::io::Error| Failure::misconfigured(format!("{}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(bad)?;
    }
    std::fs::File::options().create(true).append(true).open(path).map(drop).map_err(bad)
}

fn tell(report: &Report, args: &PlayArgs) -> Result<(), Failure> {
    let write = |path: &PathBuf, text: String| {
        std::fs::write(path, text)
            .map_err(|error| Failure::misconfigured(format!("{}: {error}", path.display())))
    };
    if let Some(path) = &args.junit {
        write(path, to_junit(report))?;
    }
    if let Some(path) = &args.json {
        write(path, format!("{:#}\n", to_json(report)))?;
    }
    let (line, tone) = summary(report);
    say(&format!("\n{}", many::painted(&line, tone)))?;
    match () {
        () if report.count(Verdict::Failed) > 0 => Err(Failure::silent(1)),
        () if report.count(Verdict::Passed) == 0 => {
            Err(Failure::misconfigured("nothing was played: all cases were skipped"))
        }
        () => Ok(()),
    }
}
