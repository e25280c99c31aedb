//! `answerable eval new`.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use answerable_evals::{Form, case_of};
use clap::Args;

use crate::Failure;
use crate::cli::output::{complain, say};
use crate::cli::remote::Remote;

#[derive(Args)]
#[command(after_help = "\
The case plays the run again: what the model said, what the tools answered and what people decided is \
in it, and its `expect` is what came of the run. Loosen what should not matter, and give it a name.

Examples:
  answerable eval new run_0198c0de --out evals/refund.yaml && answerable eval evals/refund.yaml")]
pub(super) struct NewArgs {
    /// The run
    run_id: String,
    /// File to write, .yaml or .json, which must not be there yet [default: YAML on standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name of the case [default: that of its file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// Makes a case out of a run.
pub(super) async fn new(args: NewArgs) -> Result<(), Failure> {
    let api = args.remote.api()?;
    let export = api.get(&["v1", "runs", &args.run_id, "export"]).await?;
    let is_json =
        args.out.as_ref().is_some_and(|path| path.extension().is_some_and(|ending| ending == "json"));
    let form = if is_json { Form::Json } else { Form::Yaml };
    let text = case_of(export, args.name.as_deref(), form).map_err(Failure::new)?;
    let Some(path) = &args.out else { return say(text.trim_end()) };
    let bad = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    let mut file = File::create_new(path).map_err(bad)?;
    file.write_all(text.as_bytes()).map_err(bad)?;
    complain(&format!("{} is written", path.display()));
    Ok(())
}
