//! What is promised, and what must be possible at all.

use stateright::Property;

use crate::protocol::Protocol;
use crate::scenario::Kind;
use crate::state::{Call, End, Row, Server, Stage, World};

pub(crate) const ONCE: &str = "a write that isn't idempotent leaves at most once";
pub(crate) const INTENT: &str = "nothing leaves without a committed intent";
pub(crate) const FENCED: &str = "an old epoch writes nothing";
pub(crate) const ONE_OPEN: &str = "two servers that are awake never have one call open at once";
pub(crate) const TOLD: &str = "only the owner of a run is told to go on with it";
pub(crate) const LET_GO: &str = "nobody keeps a run that it has given up";
pub(crate) const FINAL: &str = "an ended run never changes";
pub(crate) const TRUE_SUSPICIONS: &str =
    "a server is taken for dead only if it died, slept or was out of reach";
pub(crate) const TRUE_DEATHS: &str =
    "a server that is seen again before the next lease runs out counts as no death";
pub(crate) const LIMIT: &str = "a run kills at most one server more than it may";
pub(crate) const PLACES: &str = "a tenant has no more runs claimed than it has places";

/// All that must always hold.
pub(crate) const ALWAYS: [&str; 11] =
    [ONCE, INTENT, FENCED, ONE_OPEN, TOLD, LET_GO, FINAL, TRUE_SUSPICIONS, TRUE_DEATHS, LIMIT, PLACES];

pub(crate) const FINISHES: &str = "a run finishes";
pub(crate) const TAKEN_OVER: &str = "a run is taken over and finishes";
pub(crate) const UNCERTAIN: &str = "a run ends uncertain";
pub(crate) const CRASH_LOOP: &str = "a run ends as a crash loop";
pub(crate) const SLEEPER_SENDS: &str = "a server that slept sends after another has taken the run over";

/// Every property by its name.
pub(crate) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(ONCE, |protocol: &Protocol, world: &World| {
            protocol.bounds.kind == Kind::Idempotent || world.rows.iter().all(|row| row.seen.sent <= 1)
        }),
        Property::always(INTENT, |_, world: &World| world.rows.iter().all(|row| !row.seen.unintended)),
        Property::always(FENCED, |_, world: &World| world.rows.iter().all(|row| !row.seen.stale_write)),
        Property::always(ONE_OPEN, |_, world: &World| {
            (0..world.rows.len()).all(|run| world.servers.iter().filter(|s| is_open(s, run)).count() <= 1)
        }),
        Property::always(TOLD, |_, world: &World| world.rows.iter().all(|row| !row.seen.misled)),
        Property::always(LET_GO, |_, world: &World| world.rows.iter().all(|row| !row.seen.kept_idle)),
        Property::always(FINAL, |_, world: &World| world.rows.iter().all(|row| !row.seen.late_write)),
        Property::always(TRUE_SUSPICIONS, |_, world: &World| {
            world.rows.iter().all(|row| !row.seen.false_suspicion)
        }),
        Property::always(TRUE_DEATHS, |_, world: &World| world.rows.iter().all(|row| !row.seen.false_death)),
        Property::always(LIMIT, |protocol: &Protocol, world: &World| {
            world.rows.iter().all(|row| row.seen.kills <= protocol.bounds.deaths + 1)
        }),
        Property::always(PLACES, |protocol: &Protocol, world: &World| {
            world.rows.iter().filter(|row| row.owner.is_some()).count() <= protocol.bounds.places
        }),
        Property::sometimes(FINISHES, |_, world: &World| {
            world.rows.iter().all(|row| ended(row, End::Finished))
        }),
        Property::sometimes(TAKEN_OVER, |_, world: &World| {
            world.rows.iter().any(|row| row.seen.taken_over && ended(row, End::Finished))
        }),
        Property::sometimes(UNCERTAIN, |_, world: &World| {
            world.rows.iter().any(|row| ended(row, End::Uncertain))
        }),
        Property::sometimes(CRASH_LOOP, |_, world: &World| {
            world.rows.iter().any(|row| ended(row, End::CrashLoop))
        }),
        Property::sometimes(SLEEPER_SENDS, sleeper_sends),
    ]
}

fn ended(row: &Row, end: End) -> bool {
    row.call == Call::Ended(end)
}

/// An idempotent call may be open twice while one of its servers stands still, or has just woken and not renewed yet.
fn is_open(server: &Server, run: usize) -> bool {
    server.is_up()
        && server.tasks[run].is_some_and(|task| matches!(task.stage, Stage::Open(_)) && !task.slept)
}

fn sleeper_sends(_: &Protocol, world: &World) -> bool {
    let stale = |server: &Server, run: usize, row: &Row| {
        server.tasks[run].is_some_and(|task| {
            task.slept && task.epoch < row.epoch && matches!(task.stage, Stage::Open(_)) && row.is_ended()
        })
    };
    world.servers.iter().any(|server| {
        server.is_up() && world.rows.iter().enumerate().any(|(run, row)| stale(server, run, row))
    })
}
