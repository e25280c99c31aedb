//! How long the runs of a dead server wait for another one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::{DATABASE, Error, Result, Server, Stage, millis};

/// Pause between two looks: how exact a measurement is.
const LOOK: Duration = Duration::from_millis(15);
/// Longer than the promise, so that a broken one is seen with its length.
const BEYOND: Duration = Duration::from_secs(8);

/// Runs that some server works on, and which.
type Owners = HashMap<Uuid, Uuid>;

/// A dead server's runs, and how late the stage itself was in looking at them.
struct Watch<'s> {
    stage: &'s Stage,
    victim: usize,
    orphans: Owners,
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
    let orphans = before.into_iter().filter(|(_, owner)| Some(*owner) == server.proxy.user()).collect();
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

/// The server that works on most runs.
///
/// # Errors
/// The database can't be asked.
pub async fn busiest(stage: &Stage) -> Result<&Server> {
    let mut connection = stage.postgres.connect(DATABASE).await?;
    let owned = owned(&mut connection).await?;
    let of = |server: &&std::sync::Arc<Server>| {
        let user = server.proxy.user();
        owned.values().filter(|owner| Some(**owner) == user).count()
    };
    let busiest = stage.servers.iter().max_by_key(of);
    busiest.map(AsRef::as_ref).ok_or_else(|| Error::says("there are no servers"))
}

impl Watch<'_> {
    fn look(&mut self, now: &Owners) {
        // What had just been given back when its server died waits for nobody, and is had before its lease is over.
        let is_news = |(run, was): &(&Uuid, &Uuid)| now.get(*run) != Some(*was);
        let news: Vec<Uuid> = self.orphans.iter().filter(is_news).map(|(run, _)| *run).collect();
        for run in news {
            self.orphans.remove(&run);
            if now.contains_key(&run) && self.killed.elapsed() > self.stage.lease / 3 {
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

async fn owned(connection: &mut PgConnection) -> Result<Owners> {
    let statement = "SELECT run_id, lease_owner FROM run_queue WHERE lease_owner IS NOT NULL AND NOT ended";
    let rows = sqlx::raw_sql(statement).fetch_all(connection).await?;
    let read = |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(Error::Database)
}
