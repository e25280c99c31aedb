//! `answerable prune`.

use answerable_store::Pruned;
use clap::Args;

use super::flags::{DatabaseFlags, RetentionFlags};
use super::output::say;
use crate::config::{Draft, Layers};
use crate::{Failure, server};

#[derive(Args)]
#[command(after_help = "\
A server does the same by itself about once an hour, in small steps; this does all of it at once, in small \
transactions, while servers run. Needs the settings that the servers have. Uses \
ANSWERABLE_DATABASE_DIRECT_URL where it is set, else DATABASE_URL, as the role that migrates.")]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    #[command(flatten)]
    retention: RetentionFlags,
    /// Count what would go, and take nothing away
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn prune(args: PruneArgs) -> Result<(), Failure> {
    let mut values = args.flags.values();
    values.extend(args.retention.values());
    let draft = Draft::read(&Layers::read(args.flags.config(), values)?)?;
    let database = draft.required_database()?;
    let pruned = server::prune_database(&database, draft.retention, &draft.log, args.dry_run).await?;
    say(if args.dry_run { "Would go:" } else { "Gone:" })?;
    lines(&pruned).iter().try_for_each(|line| say(line))?;
    if pruned.in_use > 0 {
        say(&format!(
            "{} partitions could go and are in use: they are left for the next time.",
            pruned.in_use
        ))?;
    }
    Ok(())
}

/// What went, by kind.
fn lines(pruned: &Pruned) -> Vec<String> {
    [
        ("runs", pruned.runs),
        ("journal partitions", pruned.journal_partitions),
        ("journal rows", pruned.journal_rows),
        ("event partitions", pruned.event_partitions),
        ("webhook deliveries", pruned.deliveries),
        ("idempotency keys", pruned.idempotency_keys),
    ]
    .map(|(kind, count)| format!("  {kind}: {count}"))
    .to_vec()
}
