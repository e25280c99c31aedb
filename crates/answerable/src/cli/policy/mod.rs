//! `answerable policy`: what policies say of a call.

mod told;

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};

use super::output::say;
use super::remote::Remote;
use super::run::{object, object_in};
use crate::Failure;

#[derive(Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain what policies say of a call: every rule, whether it matches and why; nothing runs
    Check(Check),
}

#[derive(Args)]
#[command(group(ArgGroup::new("who").required(true).multiple(true)), after_help = "\
Judged as a run that this key starts now; with --run, as the next call of that run.

Examples:
  answerable policy check --agent agt_0198c0de refund '{\"order\": 7, \"amount\": 250}'
  answerable policy check --agent-file agent.json refund '{\"order\": 7}' --context '{\"group\": \"trial\"}'
  answerable policy check --run run_0198c0de refund '{\"order\": 7}' --tenant-policy new.json")]
struct Check {
    /// The tool that is called
    #[arg(value_name = "TOOL")]
    tool_name: String,
    /// The call's input, a JSON object
    #[arg(value_name = "JSON", default_value = "{}")]
    input: String,
    /// Id of a stored agent
    #[arg(long, value_name = "AGENT_ID", group = "who", conflicts_with = "agent_file")]
    agent: Option<String>,
    /// Version of the stored agent, instead of the newest
    #[arg(long, value_name = "N", requires = "agent")]
    agent_version: Option<u32>,
    /// A JSON file with the agent itself
    #[arg(long, value_name = "FILE", group = "who")]
    agent_file: Option<PathBuf>,
    /// A run that the call is of: with its agent, context, policy and grants
    #[arg(long, value_name = "RUN_ID", group = "who")]
    run: Option<String>,
    /// Conversation whose grants count
    #[arg(long, value_name = "THREAD_ID")]
    thread: Option<String>,
    /// The run's context, a JSON object
    #[arg(long, value_name = "JSON")]
    context: Option<String>,
    /// A JSON file with the run's own policy
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A JSON file with a policy to try in the place of the tenant's
    #[arg(long, value_name = "FILE")]
    tenant_policy: Option<PathBuf>,
    /// Who started the run, key_… or user:NAME, instead of this key; may be given again
    #[arg(long, value_name = "WHO")]
    creator: Vec<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn policy(args: PolicyArgs) -> Result<(), Failure> {
    let Command::Check(args) = args.command;
    let body = body(&args)?;
    let told = args.remote.api()?.post(&["v1", "policy", "check"], &body).await?;
    say(&if args.json { told.to_string() } else { told::lines(&told) })
}

fn body(args: &Check) -> Result<Value, Failure> {
    let file = |path: &Option<PathBuf>| path.as_deref().map(Path::new).map(object_in).transpose();
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| value.map(|value| body.insert(name.to_owned(), value));
    put("tool_name", Some(args.tool_name.clone().into()));
    put("input", Some(object("the input", &args.input)?));
    put("agent", args.agent.clone().map(Value::from));
    put("agent", file(&args.agent_file)?);
    put("agent_version", args.agent_version.map(Value::from));
    put("run_id", args.run.clone().map(Value::from));
    put("thread_id", args.thread.clone().map(Value::from));
    put("context", args.context.as_deref().map(|text| object("--context", text)).transpose()?);
    put("policy", file(&args.policy)?);
    put("tenant_policy", file(&args.tenant_policy)?);
    put("creators", (!args.creator.is_empty()).then(|| json!(args.creator)));
    Ok(Value::Object(body))
}
