//! `answerable tail`.

use clap::Args;

use super::follow::follow;
use super::remote::Remote;
use crate::Failure;

#[derive(Args)]
#[command(after_help = "\
Prints what has happened and what happens until the run ends; a server that is started again meanwhile \
is waited for. Ctrl-C stops the printing, never the run.

Examples:
  answerable tail run_0198c0de
  answerable tail run_0198c0de --json | jq 'select(.type == \"tool.completed\")'")]
pub(crate) struct TailArgs {
    /// The run
    run_id: String,
    /// Begin after this event
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// Print each event, and in the end the run, as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn tail(args: TailArgs) -> Result<(), Failure> {
    follow(&args.remote.api()?, &args.run_id, args.after, args.json).await.map(drop)
}
