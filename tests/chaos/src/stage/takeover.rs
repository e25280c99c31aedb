//! How long the runs of a dead server wait for another one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::{DATABASE, Error, Result, Stage, millis};

/// Pause between two looks: how exact a measurement is.
const LOOK: Duration = Duration::from_millis(15);
/// Longer than the promise, so that a broken one is seen with its length.
const BEYOND: Duration = Duration::from_secs(8);

/// A run that some server works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owned {
    owner: Uuid,
    deaths: i32,
}

/// A dead server's runs, and how late the stage itself was in looking at them.
struct Watch<'s> {
    stage: &'s Stage,
    victim: usize,
    orphans: HashMap<Uuid, Owned>,
    killed: Instant,
    /// The longest pause between two looks.
    blind: Duration,
    taken: usize,
}

/// Kills a server with SIGKILL and measures until each of its runs belongs to another life. Nothing else must be broken
/// meanwhile. Gives the number of runs that were taken over.
///
/// # Errors
/// The database can't be asked.
pub async fn kill_and_measure(stage: &Stage, victim: usize) -> Result<usize> {
    let mut connection = stage.postgres.connect(DATABASE).await?;
    let server = &stage.servers[victim];
    let before = owned(&mut connection).await?;
    server.kill();
    let orphans = before.into_iter().filter(|(_, run)| Some(run.owner) == server.proxy.user()).collect();
    let mut watch = Watch { stage, victim, orphans, killed: Instant::now(), blind: LOOK, taken: 0 };
    let mut looked = Instant::now();
    while !watch.orphans.is_empty() && watch.killed.elapsed() < stage.lease + BEYOND {
        tokio::time::sleep(LOOK).await;
        let now = owned(&mut connection).await?;
        watch.blind = watch.blind.max(looked.elapsed());
        looked = Instant::now();
        watch.look(&now);
    }
    watch.orphans.keys().for_each(|run| watch.note(*run, true));
    Ok(watch.taken)
}

impl Watch<'_> {
    fn look(&mut self, now: &HashMap<Uuid, Owned>) {
        // Deaths are counted where a run is taken from a server that didn't give it back. What had just been given back
        // or ended when its server died, or is done with already, waits for nobody.
        let has_news = |(run, was): &(&Uuid, &Owned)| now.get(*run).is_none_or(|is| is.owner != was.owner);
        let news: Vec<(Uuid, Owned)> =
            self.orphans.iter().filter(has_news).map(|(run, was)| (*run, *was)).collect();
        for (run, was) in news {
            self.orphans.remove(&run);
            if now.get(&run).is_some_and(|is| is.deaths > was.deaths) {
                self.taken += 1;
                self.note(run, false);
            }
        }
    }

    fn note(&self, run: Uuid, never: bool) {
        let (ms, blind_ms) = (millis(self.killed.elapsed()), millis(self.blind));
        let what = json!({"server": self.victim, "run": run, "ms": ms, "blind_ms": blind_ms, "never": never});
        self.stage.journal.note("takeover", what);
    }
}

async fn owned(connection: &mut PgConnection) -> Result<HashMap<Uuid, Owned>> {
    let statement =
        "SELECT run_id, lease_owner, deaths FROM run_queue WHERE lease_owner IS NOT NULL AND NOT ended";
    let rows = sqlx::raw_sql(statement).fetch_all(connection).await?;
    let read = |row: &sqlx::postgres::PgRow| {
        Ok((row.try_get(0)?, Owned { owner: row.try_get(1)?, deaths: row.try_get(2)? }))
    };
    rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(Error::Database)
}
