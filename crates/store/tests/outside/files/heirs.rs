//! Files of runs that stand on others. (Those of continued runs are the base's: see the tests of the whole server.)

use answerable_core::id::RunId;
use answerable_core::trace::TraceContext;
use answerable_core::workspace::Seen;
use answerable_ports::{Expected, WorkspaceStore as _};
use answerable_store::{Changer, Fork, NewHeir, Stand};
use uuid::Uuid;

use super::{Place, a_call, path, written};

async fn fork(place: &Place, base: RunId) -> RunId {
    let heir = NewHeir {
        run_id: RunId(Uuid::now_v7()),
        stand: Stand::Fork(Fork { after_step: 0, agent: None, repeat_effects: false }),
        messages: Vec::new(),
        trace: TraceContext::of("0123456789abcdef0123456789abcdef".into(), None, false),
        asker: Changer { by: "key_1".into(), is_admin: true },

        creators: Vec::new(),
    };
    let mut tx = place.world.tx().await;
    tx.heir_create(base, &heir).await.expect("an answer").expect("a fork");
    tx.commit().await.expect("committed");
    heir.run_id
}

#[tokio::test]
async fn a_fork_begins_with_a_copy_and_changes_its_own() {
    let place = Place::new().await;
    let base = place.world.waiting(&[("mail", serde_json::json!({"to": "ann"}))]).await;
    let workspace = place.workspace_of(base).await;
    let large = "x".repeat(100_000);
    place.call(workspace, base, a_call(), vec![written("a", Expected::Absent, "small")]).await;
    place.store(workspace, "b", &large).await;
    place.world.end(base).await;
    let heir = fork(&place, base).await;
    let own = place.workspace_of(heir).await;
    assert_ne!(own, workspace);
    assert_eq!(
        place.files.snapshot(own).await.expect("files"),
        place.files.snapshot(workspace).await.expect("files")
    );
    assert_eq!(place.shelf.count(own.tenant_id), 1, "contents are shared");
    // It knows the history up to a step, not what came after it: it looks before it overwrites.
    assert_eq!(place.files.seen(own, heir, &path("a")).await.expect("an answer"), Seen::Never);
    let next = place.store(own, "a", "changed").await;
    assert_eq!(next, 3, "versions go on");
    assert_eq!(place.read(workspace, "a").await, "small");
    place.store(workspace, "b", "other").await;
    assert_eq!(place.read(own, "b").await, large);
}

#[tokio::test]
async fn a_fork_of_a_run_without_files_has_none() {
    let place = Place::new().await;
    let base = place.world.waiting(&[("mail", serde_json::json!({"to": "ann"}))]).await;
    place.world.end(base).await;
    let own = place.workspace_of(fork(&place, base).await).await;
    assert_eq!(place.paths(own).await, Vec::<String>::new());
    place.store(own, "a", "x").await;
}
