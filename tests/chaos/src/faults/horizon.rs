//! Somebody's forgotten transaction, which keeps every dead row in place.

use futures::FutureExt as _;
use sqlx::Connection as _;

use super::{Fault, Scene, Told};
use crate::stage::{DATABASE, Result};

pub(super) const FAULT: Fault = Fault {
    name: "idle-transaction",
    about: "an idle transaction that pins the horizon while servers come and go",
    run: |scene| run(scene).boxed(),
};

async fn run(scene: &mut Scene<'_>) -> Result<Told> {
    let mut forgotten = scene.stage.postgres.connect(DATABASE).await?;
    let begin =
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current(); SELECT count(*) FROM run_queue";
    sqlx::raw_sql(begin).execute(&mut forgotten).await?;
    for _ in 0..3 {
        scene.wait(3000, 4500).await;
        scene.server().kill();
    }
    scene.wait(1000, 2000).await;
    forgotten.close().await?;
    Ok(Told::Done("held for about 12 s, with 3 servers killed".to_owned()))
}
