//! `answerable audit`: the record of who did what, taken out and verified.

mod read;
mod verify;

use std::path::PathBuf;

use answerable_core::audit::Head;
use clap::{Args, Subcommand};
use serde_json::Value;

use self::read::Entries;
use self::verify::Verifying;
use super::output::say;
use super::remote::Remote;
use crate::Failure;

#[derive(Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check that no entry was changed, dropped, moved or put in between
    Verify(VerifyArgs),
    /// Print entries as lines of JSON, oldest first
    Export(ExportArgs),
}

const VERIFY: &str = "\
Each entry holds the hash of the one before. Whoever can write to the database could write the whole chain anew, so note
the head that this prints where they can't, and give it the next time.

Examples:
  answerable audit verify
  answerable audit verify --head 412:sha256:9f2c…
  answerable audit export > audit.jsonl && answerable audit verify --file audit.jsonl
  answerable audit verify --tenant ten_0198c0de   # with the operator's key, as is --operator
Exit status: 0 the chain holds, 1 it doesn't, 2 that could not be found out.";

#[derive(Args)]
#[command(after_help = VERIFY)]
struct VerifyArgs {
    /// Entries as lines of JSON, instead of the server's; - is standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The file may hold a part of the record, or nothing: what was before is not looked at
    #[arg(long, requires = "file")]
    part: bool,
    /// A head that was noted before: that entry must be there still, and the same
    #[arg(long, value_name = "SEQ:HASH", value_parser = head)]
    head: Option<Head>,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Args)]
struct ExportArgs {
    /// Only entries after this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Args)]
struct Whose {
    /// The record of this tenant, for the operator; without it, the key's own. Entries of others are a fault
    #[arg(long, value_name = "TENANT_ID")]
    tenant: Option<String>,
    /// The operator's own record: tenants that were made and deleted
    #[arg(long, conflicts_with = "tenant")]
    operator: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn audit(args: AuditArgs) -> Result<(), Failure> {
    match args.command {
        Command::Verify(args) => verify(args).await,
        Command::Export(args) => export(args).await,
    }
}

async fn verify(args: VerifyArgs) -> Result<(), Failure> {
    let owner = args.whose.owner();
    let (mut entries, mut verifying) = match &args.file {
        Some(file) => (Entries::in_file(file)?, Verifying::file(args.head, args.part, owner)),
        None => (Entries::at_server(&args.whose, None)?, Verifying::whole(args.head, owner)),
    };
    while let Some(entry) = entries.next().await.map_err(Failure::undecided)? {
        verifying.take(&entry)?;
    }
    say(&verifying.end()?)
}

impl Whose {
    /// Whose entries they must be, as they say it themselves; `None`: whoever's the key is, or the file.
    fn owner(&self) -> Option<Value> {
        if self.operator { Some(Value::Null) } else { self.tenant.clone().map(Value::from) }
    }
}

async fn export(args: ExportArgs) -> Result<(), Failure> {
    let mut entries = Entries::at_server(&args.whose, args.after)?;
    while let Some(entry) = entries.next().await? {
        say(&entry.to_string())?;
    }
    Ok(())
}

/// Reads a head as `verify` prints it.
fn head(text: &str) -> Result<Head, String> {
    let wanted = "a number and a hash, as in 412:sha256:9f2c…, are needed";
    let (seq, hash) = text.split_once(':').ok_or(wanted)?;
    let seq = seq.parse().ok().filter(|seq| *seq > 0).ok_or(wanted)?;
    let digits = hash.strip_prefix("sha256:").ok_or(wanted)?;
    if digits.len() != 64 || digits.bytes().any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(wanted.to_owned());
    }
    Ok(Head { seq, hash: Some(hash.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_are_printed() {
        let hash = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(head(&format!("412:{hash}")), Ok(Head { seq: 412, hash: Some(hash.clone()) }));
        for odd in ["", "412", &hash, &format!("0:{hash}"), &format!("x:{hash}"), "1:sha256:0a", "1:md5:0a"] {
            assert!(head(odd).is_err(), "{odd}");
        }
    }
}
