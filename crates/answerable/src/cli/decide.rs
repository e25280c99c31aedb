//! `answerable approve` and `answerable deny`.

use clap::Args;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::inbox::{self, Filters};
use super::output::say;
use super::remote::{Api, Remote};
use super::run::object;
use crate::Failure;
use crate::timeline::printable;

#[derive(Args)]
#[command(after_help = "\
Without an id it lists what waits for a decision. An approval is of the one call with the very arguments \
that are shown; if they are not these any more, nothing is decided.

Examples:
  answerable approve
  answerable approve --tool refund --order expires
  answerable approve apr_0198c0de --reason \"checked with Ann\"
  answerable approve apr_0198c0de --input '{\"order\": 7, \"amount\": 40}'  # other arguments")]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    common: Common,
    /// Let the call run with these arguments instead, a JSON object; for a budget, the new limits
    #[arg(long, value_name = "JSON", requires = "ids")]
    input: Option<String>,
    /// Don't ask again for this tool in the same run, thread, agent or tenant
    #[arg(long, value_name = "SCOPE", requires = "ids", value_parser = ["run", "thread", "agent", "tenant"])]
    remember: Option<String>,
    /// With --remember: only for calls with exactly this input
    #[arg(long, requires = "remember")]
    exact_input: bool,
}

#[derive(Args)]
#[command(after_help = "\
Without an id it lists what waits for a decision. The agent is told that the call was refused, and why.

Examples:
  answerable deny
  answerable deny apr_0198c0de --reason \"not before Monday\"")]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Approvals to decide
    #[arg(value_name = "APPROVAL_ID")]
    ids: Vec<String>,
    /// Why
    #[arg(long, value_name = "TEXT", requires = "ids")]
    reason: Option<String>,
    /// Who decides, if the key acts for several people
    #[arg(long = "as", value_name = "NAME", requires = "ids")]
    acting_user: Option<String>,
    #[command(flatten)]
    filters: Filters,
    /// Print approvals as lines of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn approve(args: ApproveArgs) -> Result<(), Failure> {
    let mut body = Map::new();
    if let Some(input) = &args.input {
        body.insert("input".to_owned(), object("--input", input)?);
    }
    if let Some(scope) = &args.remember {
        let matching = if args.exact_input { "exact_input" } else { "tool" };
        body.insert("remember".to_owned(), json!({"scope": scope, "match": matching}));
    }
    list_or_decide(&args.common, "approve", body).await
}

pub(crate) async fn deny(args: DenyArgs) -> Result<(), Failure> {
    list_or_decide(&args.common, "deny", Map::new()).await
}

async fn list_or_decide(args: &Common, decision: &str, mut body: Map<String, Value>) -> Result<(), Failure> {
    let api = args.remote.api()?;
    if args.ids.is_empty() {
        return inbox::list(&api, &args.filters, args.json).await;
    }
    body.insert("decision".to_owned(), decision.into());
    if let Some(reason) = &args.reason {
        body.insert("reason".to_owned(), reason.as_str().into());
    }
    for id in &args.ids {
        let approval = decide(&api, id, body.clone(), args).await?;
        say(&if args.json { approval.to_string() } else { outcome(&approval) })?;
    }
    Ok(())
}

/// Decides what is shown: the input's hash goes along, so that the decision is of this input or of none.
async fn decide(api: &Api, id: &str, mut body: Map<String, Value>, args: &Common) -> Result<Value, Failure> {
    let approval = api.get(&["v1", "approvals", id]).await?;
    if !args.json {
        say(&inbox::entry(&approval))?;
    }
    if let Some(hash) = approval.get("input_hash").filter(|hash| hash.is_string()) {
        body.insert("input_hash".to_owned(), hash.clone());
    }
    let mut headers = Vec::new();
    if let Some(name) = &args.acting_user {
        let name =
            HeaderValue::try_from(name).map_err(|_| Failure::misconfigured("--as is no header value"))?;
        headers.push((HeaderName::from_static("x-acting-user"), name));
    }
    let url = api.url(&["v1", "approvals", id, "decision"]);
    Ok(api.send(Method::POST, url, Some(&Value::Object(body)), &headers).await?)
}

fn outcome(approval: &Value) -> String {
    let text = |name: &str| approval.get(name).and_then(Value::as_str);
    let required = approval.get("required").and_then(Value::as_u64).unwrap_or(1);
    let votes = approval.get("votes").and_then(Value::as_array).map_or(0, Vec::len);
    match text("status") {
        Some("pending") => format!("    → noted, {votes} of {required} decisions"),
        status => printable(&format!("    → {}", status.unwrap_or("decided"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_counts_votes() {
        assert_eq!(outcome(&json!({"status": "approved"})), "    → approved");
        let pending = json!({"status": "pending", "required": 2, "votes": [{}]});
        assert_eq!(outcome(&pending), "    → noted, 1 of 2 decisions");
    }
}
