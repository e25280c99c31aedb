//! The command line.

mod audit;
mod bootstrap;
mod decide;
mod dev;
mod eval;
mod export;
mod flags;
mod follow;
mod inbox;
mod migrate;
mod output;
mod policy;
mod prune;
mod remote;
mod run;
mod secrets;
mod serve;
pub(crate) mod shutdown;
mod sse;
mod tail;
mod tools;
mod try_it;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::Failure;

const EXAMPLES: &str = "\
Examples:
  answerable dev
      Try it on this machine. Nothing to configure: keeps a private PostgreSQL and its keys in
      .answerable/, prints an API key and three curl lines to try.

  answerable run --agent agt_0198c0de \"Where is order 7?\"
      Start a run and follow it on the terminal.

  answerable approve
  answerable approve apr_0198c0de --reason \"checked with Ann\"
      See which calls wait for a person; let one happen.

  answerable policy check --agent agt_0198c0de refund '{\"amount\": 250}'
      Explain whether a call may run, and why.

  answerable eval evals/
      Play eval cases on a server of their own and say which failed.

  answerable tools from-openapi https://shop.example/openapi.json
      Turn the operations of an OpenAPI document into tools for an agent.

  answerable serve
      Run the service. Needs DATABASE_URL, ANSWERABLE_OPERATOR_KEY and ANSWERABLE_SECRET_KEY.

Settings come from flags, then environment variables, then answerable.toml, then defaults;
`answerable serve --help` lists them.
Exit status: 0 done, 1 failed, 2 wrong arguments or configuration.";

/// An agent runtime as a service: runs agents durably, asks before they act, and answers for what they did.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server on this machine with a private PostgreSQL and no configuration
    Dev(dev::DevArgs),
    /// Run the service
    Serve(serve::ServeArgs),
    /// Bring the database up to this version's schema, and end
    Migrate(migrate::MigrateArgs),
    /// Take away what is older than is to be kept, and end
    Prune(prune::PruneArgs),
    /// See which keys encrypt what is stored, or have it encrypted by another one
    Secrets(secrets::SecretsArgs),
    /// Start a run and follow it
    Run(run::RunArgs),
    /// Follow a run from its beginning
    Tail(tail::TailArgs),
    /// List the calls that wait for a person, or let some of them happen
    Approve(decide::ApproveArgs),
    /// List the calls that wait for a person, or refuse some of them
    Deny(decide::DenyArgs),
    /// Explain what policies say of a call
    Policy(policy::PolicyArgs),
    /// Take out or verify the record of who did what
    Audit(audit::AuditArgs),
    /// Take away all that a tenant has
    Export(export::ExportArgs),
    /// Play eval cases, or make one out of a run
    Eval(eval::EvalArgs),
    /// Make tools out of what describes them
    Tools(tools::ToolsArgs),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = answerable_sandbox::init::if_asked() {
        return code;
    }
    let cli = Cli::parse();
    // Fails only where a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(format!("the runtime can't start: {e}")))
        .and_then(|runtime| runtime.block_on(carry_out(cli.command)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                output::complain(&format!("answerable: {message}"));
            }
            ExitCode::from(failure.status())
        }
    }
}

async fn carry_out(command: Command) -> Result<(), Failure> {
    match command {
        Command::Dev(args) => dev::dev(args).await,
        Command::Serve(args) => serve::serve(args).await,
        Command::Migrate(args) => migrate::migrate(args).await,
        Command::Prune(args) => prune::prune(args).await,
        Command::Secrets(args) => secrets::secrets(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Tail(args) => tail::tail(args).await,
        Command::Approve(args) => decide::approve(args).await,
        Command::Deny(args) => decide::deny(args).await,
        Command::Policy(args) => policy::policy(args).await,
        Command::Audit(args) => audit::audit(args).await,
        Command::Export(args) => export::export(args).await,
        Command::Eval(args) => eval::eval(args).await,
        Command::Tools(args) => tools::tools(args).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_explains_itself() {
        let help = Cli::command().render_help().to_string();
        for word in [
            "dev",
            "serve",
            "migrate",
            "prune",
            "secrets",
            "run",
            "tail",
            "approve",
            "deny",
            "audit",
            "policy",
            "export",
            "eval",
            "tools",
            "Examples:",
            "answerable.toml",
        ] {
            assert!(help.contains(word), "{word}");
        }
    }
}
