//! `answerable run`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::follow::follow;
use super::output::{complain, say};
use super::remote::{Api, Refusal, Remote};
use crate::Failure;

const TRIES: u32 = 4;

#[derive(Args)]
#[command(group(ArgGroup::new("who").required(true)), after_help = "\
Exit status: 0 if the run finished, 1 if it failed or was cancelled. Ctrl-C stops the printing, never \
the run.

Examples:
  answerable run --agent agt_0198c0de \"Where is order 7?\"
  answerable run --agent-file agent.json --context '{\"user_id\": 7}' - < question.txt
  answerable run --agent agt_0198c0de --detach \"Tidy up\"        # prints the run's id")]
pub(crate) struct RunArgs {
    /// What to say to the agent; `-` reads it from standard input
    input: String,
    /// Id of a stored agent
    #[arg(long, value_name = "AGENT_ID", group = "who")]
    agent: Option<String>,
    /// Version of the stored agent, instead of the newest
    #[arg(long, value_name = "N", requires = "agent")]
    agent_version: Option<u32>,
    /// A JSON file with the agent itself
    #[arg(long, value_name = "FILE", group = "who")]
    agent_file: Option<PathBuf>,
    /// Conversation that the run belongs to
    #[arg(long, value_name = "THREAD_ID")]
    thread: Option<String>,
    /// A JSON object for policies, templates and tool headers; the model never sees it
    #[arg(long, value_name = "JSON")]
    context: Option<String>,
    /// Limits below the agent's own, a JSON object such as {"max_steps": 3}
    #[arg(long, value_name = "JSON")]
    budgets: Option<String>,
    /// A JSON file with a policy of the run's own, judged beside the agent's and the tenant's: it can only tighten
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A note to keep with the run; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    metadata: Vec<String>,
    /// A run that was started with this key is not started again [default: a random one]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Print the run's id and end
    #[arg(long)]
    detach: bool,
    /// Print each event, and in the end the run, as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: RunArgs) -> Result<(), Failure> {
    let body = body(&args)?;
    let api = args.remote.api()?;
    let run = start(&api, &body, args.idempotency_key.as_deref()).await?;
    let id =
        run.get("id").and_then(Value::as_str).ok_or_else(|| Failure::new("the server's answer has no id"))?;
    if args.detach {
        return say(&if args.json { run.to_string() } else { id.to_owned() });
    }
    if !args.json {
        complain(id);
    }
    let run = follow(&api, id, 0, args.json).await?;
    match run.get("status").and_then(Value::as_str) {
        Some("finished") => Ok(()),
        _ => Err(Failure::silent(1)),
    }
}

fn body(args: &RunArgs) -> Result<Value, Failure> {
    let mut body = Map::new();
    body.insert("input".to_owned(), input(&args.input)?.into());
    let mut put = |name: &str, value: Option<Value>| value.map(|value| body.insert(name.to_owned(), value));
    put("agent_id", args.agent.clone().map(Value::from));
    put("agent_version", args.agent_version.map(Value::from));
    put("agent", args.agent_file.as_deref().map(object_in).transpose()?);
    put("thread_id", args.thread.clone().map(Value::from));
    put("context", args.context.as_deref().map(|text| object("--context", text)).transpose()?);
    put("policy", args.policy.as_deref().map(object_in).transpose()?);
    put("budgets", args.budgets.as_deref().map(|text| object("--budgets", text)).transpose()?);
    put("metadata", metadata(&args.metadata)?);
    Ok(Value::Object(body))
}

fn input(text: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| Failure::new(format!("standard input: {e}")))?;
    Ok(text)
}

/// A JSON object in a file.
pub(crate) fn object_in(path: &Path) -> Result<Value, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Failure::misconfigured(format!("{name}: {e}")))?;
    object(&name, &text)
}

/// A JSON object that the user gave as `what`.
pub(crate) fn object(what: &str, text: &str) -> Result<Value, Failure> {
    let value: Value =
        serde_json::from_str(text).map_err(|e| Failure::misconfigured(format!("{what}: {e}")))?;
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(Failure::misconfigured(format!("{what} is JSON, but no object"))),
    }
}

fn metadata(pairs: &[String]) -> Result<Option<Value>, Failure> {
    let mut map = Map::new();
    for pair in pairs {
        let wrong = || Failure::misconfigured(format!("--metadata {pair:?}: KEY=VALUE is needed"));
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        map.insert(key.to_owned(), json!(value));
    }
    Ok((!map.is_empty()).then_some(Value::Object(map)))
}

/// Starts the run. Its key makes it safe to ask again when no answer came.
async fn start(api: &Api, body: &Value, key: Option<&str>) -> Result<Value, Failure> {
    let key = key.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
    let key = HeaderValue::try_from(key)
        .map_err(|_| Failure::misconfigured("--idempotency-key is no header value"))?;
    let headers = [(HeaderName::from_static("idempotency-key"), key)];
    let mut tries = 1;
    loop {
        match api.send(Method::POST, api.url(&["v1", "runs"]), Some(body), &headers).await {
            Ok(run) => return Ok(run),
            Err(Refusal { status: None, .. }) if tries < TRIES => tries += 1,
            Err(refusal) => return Err(refusal.into()),
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}
