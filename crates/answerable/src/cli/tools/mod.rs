//! `answerable tools`: tools out of what describes them.

mod openapi;
mod read;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use self::openapi::{Imported, Wanted};
use super::output::{complain, say};
use crate::Failure;

#[derive(Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Turn the operations of an OpenAPI 3 document into tools, as JSON for an agent's `tools`
    FromOpenapi(FromOpenapi),
}

const EXAMPLES: &str = "\
Examples:
  answerable tools from-openapi https://shop.example/openapi.json --out tools.json
  answerable tools from-openapi openapi.yaml --base-url https://shop.example/v2 --only 'get*' --only createOrder

GET only reads (risk low); POST, PUT and PATCH write (medium), DELETE writes (high); PUT and DELETE may be sent again.
Look through the result: the document doesn't say what an operation really does.
What can't be turned into a tool is said on standard error and left out.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct FromOpenapi {
    /// The document, JSON or YAML: an address, a file, or - for standard input
    #[arg(value_name = "URL|FILE")]
    source: String,
    /// Where the operations are, instead of what the document says
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Take only tools whose name matches; may be given several times
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Write the tools to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) async fn tools(args: ToolsArgs) -> Result<(), Failure> {
    let Command::FromOpenapi(args) = args.command;
    let document = read::document(&args.source).await?;
    let wanted = Wanted { base_url: args.base_url, source: read::address(&args.source), only: args.only };
    let imported = openapi::import(&document, &wanted).map_err(Failure::misconfigured)?;
    tell(&imported);
    if imported.tools.is_empty() {
        return Err(Failure::new("no operation could be turned into a tool"));
    }
    let text = format!("{:#}", Value::Array(imported.tools));
    match args.out {
        None => say(&text),
        Some(file) => std::fs::write(&file, text + "\n")
            .map_err(|error| Failure::new(format!("{}: {error}", file.display()))),
    }
}

fn tell(imported: &Imported) {
    for line in &imported.told {
        complain(line);
    }
    let (made, left_out) = (imported.tools.len(), imported.left_out);
    complain(&format!("{made} tools from {}; {left_out} operations were left out", imported.title));
    if !imported.secrets.is_empty() {
        complain("they need these secrets (PUT /v1/secrets/NAME), and send each there:");
        for (name, origins) in &imported.secrets {
            let origins: Vec<&str> = origins.iter().map(String::as_str).collect();
            complain(&format!("  {name}: {}", origins.join(", ")));
        }
        complain(
            "the document chose names and addresses: check that none of these names is already that of a secret of yours for somebody else",
        );
    }
}
