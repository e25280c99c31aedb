//! `answerable-chaos`: plays a round of faults, the mutation check, or the world outside.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use answerable_chaos::faults::{self, Fault};
use answerable_chaos::rounds::{self, Options, say};
use answerable_chaos::world;
use clap::{Args, Parser, Subcommand};

/// Servers under every fault that we can make, judged by an outside witness.
#[derive(Parser)]
#[command(name = "answerable-chaos", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    round: RoundArgs,
}

#[derive(Subcommand)]
enum Command {
    /// The world outside: tools and a model that write down what is done. A round starts it.
    World {
        /// Where it writes.
        #[arg(long)]
        dir: PathBuf,
        /// What it does follows from it.
        #[arg(long)]
        seed: u64,
    },
    /// Leaves out each guard in turn: the round must go red, for the right reason.
    Mutants {
        /// This guard alone.
        #[arg(long)]
        only: Option<String>,
        /// All choices follow from it; random where it is absent.
        #[arg(long)]
        seed: Option<u64>,
    },
}

#[derive(Args)]
struct RoundArgs {
    /// How long faults are made, in seconds. What comes before and after takes one to three minutes more.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// All choices follow from it; random where it is absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Kinds of faults, with commas between them; all where it is absent.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Lists the kinds of faults.
    #[arg(long)]
    list: bool,
    /// Where logs are kept; else in a temporary folder, which stays when the round is red.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Runs under way at a time.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// A guard that the servers do without.
    #[arg(long)]
    without: Option<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fails(&error),
    };
    let code = runtime.block_on(async {
        tokio::select! {
            code = run(cli) => code,
            // All that was started ends with what was dropped here.
            _ = tokio::signal::ctrl_c() => { say("stopped"); ExitCode::from(130) }
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Some(Command::World { dir, seed }) => match world::run_process(&dir, seed).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fails(&error),
        },
        Some(Command::Mutants { only, seed }) => {
            verdict(rounds::mutants::check(only.as_deref(), seed.unwrap_or_else(rand::random)).await)
        }
        None if cli.round.list => {
            faults::ALL.iter().for_each(|fault| say(format!("{:<18} {}", fault.name, fault.about)));
            ExitCode::SUCCESS
        }
        None => round(cli.round).await,
    }
}

async fn round(args: RoundArgs) -> ExitCode {
    let faults = match kinds(&args.only) {
        Ok(faults) => faults,
        Err(name) => return fails(&format!("there is no fault {name:?}; --list shows them")),
    };
    let seed = args.seed.unwrap_or_else(rand::random);
    say(format!("chaos: seed {seed}, {} s, {} kinds of faults", args.seconds, faults.len()));
    verdict(
        async {
            let folder = rounds::Folder::make(args.dir)?;
            let options = Options {
                seed,
                length: Duration::from_secs(args.seconds),
                faults,
                runs_at_once: args.runs.into(),
                without: args.without,
                ..Options::usual(folder.path())?
            };
            let outcome = rounds::play(&options).await?;
            rounds::tell(&outcome);
            let green = outcome.is_green();
            folder.close(green);
            Ok(green)
        }
        .await,
    )
}

fn kinds(only: &[String]) -> Result<Vec<Fault>, String> {
    if only.is_empty() { Ok(faults::ALL.to_vec()) } else { faults::named(only) }
}

fn verdict(green: answerable_chaos::stage::Result<bool>) -> ExitCode {
    match green {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fails(&error),
    }
}

fn fails(error: &dyn std::fmt::Display) -> ExitCode {
    say(format!("error: {error}"));
    ExitCode::from(2)
}
