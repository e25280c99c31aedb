//! `answerable secrets`: the keys that encrypt what tenants entrust.

use answerable_store::{SealedValues, Sealer, Wrapping};
use clap::{Args, Subcommand};

use super::flags::DatabaseFlags;
use super::output::{complain, say};
use crate::config::{Draft, Layers};
use crate::{Failure, server};

#[derive(Args)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Count what is encrypted by which key, and what no configured key opens
    Status(Status),
    /// Have ANSWERABLE_SECRET_KEY encrypt what is encrypted by ANSWERABLE_OTHER_SECRET_KEYS
    Rewrap(Rewrap),
}

#[derive(Args)]
#[command(after_help = "\
Needs DATABASE_URL and the keys that the servers have. Exit status: 0 all can be opened, 1 some can't.")]
struct Status {
    #[command(flatten)]
    flags: DatabaseFlags,
}

#[derive(Args)]
#[command(after_help = "\
Beside running servers, in small steps; what was begun and broken off is begun again and goes on. No secret is \
changed, only what it is encrypted with. All servers must have both keys before, with the new one as \
ANSWERABLE_SECRET_KEY; when no more is counted under the old one, it is needed no more. Uses \
ANSWERABLE_DATABASE_DIRECT_URL where it is set, else DATABASE_URL. Exit status: 0 all is encrypted by \
ANSWERABLE_SECRET_KEY now, 1 some can't be opened.")]
struct Rewrap {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// Count what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn secrets(args: SecretsArgs) -> Result<(), Failure> {
    match args.command {
        Command::Status(args) => {
            let (sealer, found) = look(&args.flags, Wrapping::Stays).await?;
            told(&sealer, &found, None)
        }
        Command::Rewrap(args) => {
            let wrapping = if args.dry_run { Wrapping::Stays } else { Wrapping::Anew };
            let (sealer, found) = look(&args.flags, wrapping).await?;
            let words = if args.dry_run { "would be encrypted anew" } else { "are encrypted anew" };
            told(&sealer, &found, Some(words))
        }
    }
}

async fn look(flags: &DatabaseFlags, wrapping: Wrapping) -> Result<(Sealer, SealedValues), Failure> {
    let mut draft = Draft::read(&Layers::read(flags.config(), flags.values())?)?;
    let database = draft.required_database()?;
    let (key, others) = draft.required_secret_keys()?;
    let sealer = server::sealer(&key, &others);
    let found = server::look_at_secrets(&database, sealer.clone(), &draft.log, wrapping).await?;
    Ok((sealer, found))
}

/// Says what was found; what can't be opened is the command's bad end.
fn told(sealer: &Sealer, found: &SealedValues, rewrapped: Option<&str>) -> Result<(), Failure> {
    lines(sealer, found).iter().try_for_each(|line| say(line))?;
    if let Some(words) = rewrapped {
        say(&format!("{} {words}.", found.rewrapped))?;
    }
    if found.closed_count() == 0 {
        return Ok(());
    }
    complain("answerable: no configured key opens these (another key, or damaged):");
    found.closed_places.iter().for_each(|place| complain(&format!("  {place}")));
    let more = found.closed_count().saturating_sub(found.closed_places.len() as u64);
    if more > 0 {
        complain(&format!("  and {more} more"));
    }
    Err(Failure::silent(1))
}

/// How much stands under which key. What was wrapped anew is still counted under the key that it had.
fn lines(sealer: &Sealer, found: &SealedValues) -> Vec<String> {
    let own = sealer.key_id();
    let count = |id| found.by_key.get(&id).copied().unwrap_or_default();
    let mut lines = vec![format!("{own}  {:>8}  ANSWERABLE_SECRET_KEY", count(own))];
    lines.extend(
        sealer
            .key_ids()
            .filter(|id| *id != own)
            .map(|id| format!("{id}  {:>8}  ANSWERABLE_OTHER_SECRET_KEYS", count(id))),
    );
    lines.extend(found.closed.iter().map(|(id, count)| match id {
        Some(id) if !sealer.knows(*id) => format!("{id}  {count:>8}  not configured"),
        Some(id) => format!("{id}  {count:>8}  damaged"),
        None => format!("{:16}  {count:>8}  no configured key opens them", "unknown"),
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_line() {
        let (old, lost) = (Sealer::new(&[7; 32]).key_id(), Sealer::new(&[8; 32]).key_id());
        let sealer = Sealer::with_others(&[9; 32], &[&[7; 32]]);
        let found = SealedValues {
            by_key: [(old, 3)].into(),
            closed: [(Some(lost), 2), (None, 1), (Some(old), 4)].into(),
            ..SealedValues::default()
        };
        let told = lines(&sealer, &found);
        assert_eq!(told[0], format!("{}         0  ANSWERABLE_SECRET_KEY", sealer.key_id()));
        assert_eq!(told[1], format!("{old}         3  ANSWERABLE_OTHER_SECRET_KEYS"));
        for line in [format!("{lost}         2  not configured"), format!("{old}         4  damaged")] {
            assert!(told.contains(&line), "{told:?}");
        }
        assert!(
            told.contains(&"unknown                  1  no configured key opens them".to_owned()),
            "{told:?}"
        );
    }
}
