//! `answerable migrate`.

use clap::Args;

use super::flags::DatabaseFlags;
use super::output::say;
use crate::config::{Draft, Layers};
use crate::{Failure, server};

#[derive(Args)]
#[command(after_help = "\
Safe to run at any time and by several at once; `answerable serve` of the same version finds nothing to \
do. Uses ANSWERABLE_DATABASE_DIRECT_URL where it is set, else DATABASE_URL.")]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
}

pub(crate) async fn migrate(args: MigrateArgs) -> Result<(), Failure> {
    let draft = Draft::read(&Layers::read(args.flags.config(), args.flags.values())?)?;
    let database = draft.required_database()?;
    server::migrate_database(&database, &draft.log).await?;
    say("The database is up to date.")
}
