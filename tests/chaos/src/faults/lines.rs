//! The way between a server and the database.

use std::time::Duration;

use futures::FutureExt as _;
use serde_json::json;

use super::{Fault, Scene, Told, numbers};
use crate::stage::{Result, millis};

pub(super) const CUT: Fault = Fault {
    name: "cut",
    about: "every connection of a server to the database cut, and for a moment none made anew",
    run: |scene| cut(scene).boxed(),
};
pub(super) const HOLE: Fault = Fault {
    name: "black-hole",
    about: "nothing passes between a server and the database past its lease, and never arrives",
    run: |scene| hole(scene, false).boxed(),
};
pub(super) const LATE: Fault = Fault {
    name: "late",
    about: "nothing passes between a server and the database past its lease, and then all arrives",
    run: |scene| hole(scene, true).boxed(),
};
pub(super) const DELAY: Fault = Fault {
    name: "slow",
    about: "each message to and from the database delayed",
    run: |scene| delay(scene).boxed(),
};
pub(super) const DROP_ANSWERS: Fault = Fault {
    name: "drop-answers",
    about: "commits delivered, their answers dropped with the connection",
    run: |scene| drop_answers(scene).boxed(),
};

async fn cut(scene: &mut Scene<'_>) -> Result<Told> {
    for _ in scene.times(6) {
        let server = scene.server();
        let refuse = scene.coin();
        server.proxy.set(|mode| mode.refuse = refuse);
        server.proxy.cut_all();
        scene.wait(100, 1200).await;
        server.proxy.heal();
    }
    Ok(Told::Done(format!("{} times", scene.times(6).end)))
}

async fn hole(scene: &mut Scene<'_>, late: bool) -> Result<Told> {
    let count = usize::try_from(scene.number(1, 2)).unwrap_or(1);
    let servers = scene.servers(count);
    let names: Vec<usize> = servers.iter().map(|server| server.index).collect();
    scene.stage.journal.note("hole.begin", json!({"servers": names}));
    servers.iter().for_each(|server| server.proxy.set(|mode| mode.hole = true));
    let lease = millis(scene.stage.lease);
    let lasted = scene.number(lease + 500, lease * 3);
    tokio::time::sleep(Duration::from_millis(lasted)).await;
    for server in &servers {
        if !late {
            server.proxy.cut_all();
        }
        server.proxy.heal();
    }
    scene.stage.journal.note("hole.end", json!({"servers": names}));
    scene.wait(1000, 2000).await;
    Ok(Told::Done(format!("servers {} for {lasted} ms", numbers(&servers))))
}

async fn delay(scene: &mut Scene<'_>) -> Result<Told> {
    let ms = scene.number(40, 250);
    let servers = scene.servers(2);
    servers.iter().for_each(|server| server.proxy.set(|mode| mode.delay = Duration::from_millis(ms)));
    scene.wait(5000, 8000).await;
    Ok(Told::Done(format!("servers {} by {ms} ms a message", numbers(&servers))))
}

async fn drop_answers(scene: &mut Scene<'_>) -> Result<Told> {
    let dropped = |scene: &Scene<'_>| -> u64 {
        scene.stage.servers.iter().map(|server| server.proxy.answers_dropped()).sum()
    };
    let before = dropped(scene);
    for _ in scene.times(5) {
        let count = scene.number(1, 3);
        let server = scene.server();
        server.proxy.drop_answers(count);
        scene.wait(800, 2000).await;
    }
    let after = dropped(scene);
    Ok(Told::Done(format!("{} commits made, their answers dropped", after - before)))
}
