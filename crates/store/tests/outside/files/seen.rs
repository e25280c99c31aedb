//! What runs have seen, and what their calls did.

use answerable_core::id::{ArtifactId, RunId, ThreadId};
use answerable_core::workspace::Seen;
use answerable_ports::{CallOutcome, Expected, FilesCommitted, Workspace, WorkspaceStore as _};
use std::collections::BTreeMap;
use uuid::Uuid;

use super::{Place, a_call, deleted, path, stored, written};

impl Place {
    async fn seen(&self, workspace: Workspace, run: RunId, text: &str) -> Seen {
        self.files.seen(workspace, run, &path(text)).await.expect("an answer")
    }

    async fn saw(&self, workspace: Workspace, run: RunId, text: &str, version: Option<i64>) {
        self.files.saw(workspace, run, &path(text), version).await.expect("written");
    }

    async fn thread(&self) -> ThreadId {
        let mut tx = self.world.tx().await;
        let thread = tx.thread_create(&BTreeMap::new()).await.expect("a thread");
        tx.commit().await.expect("committed");
        ThreadId(thread.thread_id)
    }
}

#[tokio::test]
async fn a_run_has_seen_what_it_read_and_wrote_last() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    let first = place.store(workspace, "a", "one").await;
    assert_eq!(place.seen(workspace, run, "a").await, Seen::Never, "a client's write is no look");
    place.saw(workspace, run, "a", Some(first)).await;
    place.store(workspace, "a", "two").await;
    assert_eq!(place.seen(workspace, run, "a").await, Seen::Version(first));
    let third =
        stored(place.call(workspace, run, a_call(), vec![written("a", Expected::Anything, "three")]).await);
    assert_eq!(place.seen(workspace, run, "a").await, Seen::Version(third));
    place.call(workspace, run, a_call(), vec![deleted("a", Expected::Present)]).await;
    assert_eq!(place.seen(workspace, run, "a").await, Seen::Absent);
    place.saw(workspace, run, "b", None).await;
    assert_eq!(place.seen(workspace, run, "b").await, Seen::Absent);
    assert_eq!(place.seen(workspace, run, "c").await, Seen::Never);
}

#[tokio::test]
async fn a_run_knows_what_the_runs_before_it_saw() {
    let place = Place::new().await;
    let thread = place.thread().await;
    let first = place.world.cancelled(|new| new.thread_id = Some(thread)).await;
    let workspace = place.workspace_of(first).await;
    place.saw(workspace, first, "a", Some(3)).await;
    let second = place.world.start(|new| new.thread_id = Some(thread)).await.expect("a run");
    assert_eq!(place.workspace_of(second).await, workspace, "runs of a thread share its files");
    assert_eq!(place.seen(workspace, second, "a").await, Seen::Version(3));
    // One that has not ended is not in the history of the next.
    place.saw(workspace, second, "b", Some(4)).await;
    let third = place.world.start(|new| new.thread_id = Some(thread)).await.expect("a run");
    assert_eq!(place.seen(workspace, third, "b").await, Seen::Never);
    // What a run saw itself goes before what another saw later.
    place.saw(workspace, third, "a", Some(5)).await;
    place.saw(workspace, first, "a", Some(6)).await;
    assert_eq!(place.seen(workspace, third, "a").await, Seen::Version(5));
    let (alone, own) = place.run().await;
    assert_eq!(place.seen(workspace, alone, "a").await, Seen::Never, "a run beside the thread");
    assert_eq!(place.seen(own, first, "a").await, Seen::Never, "another workspace");
}

#[tokio::test]
async fn many_paths_are_asked_about_at_once() {
    let place = Place::new().await;
    let thread = place.thread().await;
    let first = place.world.cancelled(|new| new.thread_id = Some(thread)).await;
    let workspace = place.workspace_of(first).await;
    let second = place.world.start(|new| new.thread_id = Some(thread)).await.expect("a run");
    for (run, text, version) in [
        (first, "a", Some(1)),
        (second, "a", None),
        (first, "a", Some(3)),
        (first, "b", Some(4)),
        (first, "b", None),
        (second, "c", Some(5)),
    ] {
        place.saw(workspace, run, text, version).await;
    }
    let asked = ["never", "c", "a", "b", "c"].map(path);
    let seen = place.files.seen_many(workspace, second, &asked).await.expect("an answer");
    assert_eq!(seen, [Seen::Never, Seen::Version(5), Seen::Absent, Seen::Absent, Seen::Version(5)]);
    assert_eq!(place.files.seen_many(workspace, second, &[]).await.expect("an answer"), []);
}

#[tokio::test]
async fn the_same_call_again_changes_nothing() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    let call = a_call();
    let tenant = workspace.tenant_id;
    assert_eq!(place.files.outcome(tenant, call).await.expect("an answer"), None);
    let change = || vec![written("a", Expected::Absent, "of the call")];
    let version = stored(place.call(workspace, run, call, change()).await);
    place.store(workspace, "a", "of somebody else").await;
    let outcome = CallOutcome { version, output: format!("of {call}") };
    let again = place.call(workspace, run, call, change()).await;
    assert_eq!(again, FilesCommitted::Repeated(outcome.clone()));
    assert_eq!(place.read(workspace, "a").await, "of somebody else");
    assert_eq!(place.files.outcome(tenant, call).await.expect("an answer"), Some(outcome));
    let stranger = place.world.another_tenant().await;
    assert_eq!(place.files.outcome(stranger, call).await.expect("an answer"), None);
}

#[tokio::test]
async fn a_call_that_is_sent_twice_at_once_is_made_once() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    for round in 0..10 {
        let (call, name) = (a_call(), format!("{round}"));
        let send = || place.call(workspace, run, call, vec![written(&name, Expected::Absent, "x")]);
        let (one, two) = tokio::join!(send(), send());
        let is_stored = |done: &FilesCommitted| matches!(done, FilesCommitted::Stored { .. });
        assert_eq!([&one, &two].into_iter().filter(|done| is_stored(done)).count(), 1, "{one:?} {two:?}");
        let repeated = [one, two].into_iter().any(|done| matches!(done, FilesCommitted::Repeated(_)));
        assert!(repeated);
    }
}

#[tokio::test]
async fn a_call_that_changes_nothing_is_kept_all_the_same() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    let version = place.store(workspace, "a", "x").await;
    let call = a_call();
    assert_eq!(stored(place.call(workspace, run, call, vec![]).await), version);
    let again = place.call(workspace, run, call, vec![]).await;
    assert!(matches!(again, FilesCommitted::Repeated(outcome) if outcome.version == version));
}

#[tokio::test]
async fn a_refused_call_leaves_nothing() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    place.store(workspace, "a", "x").await;
    let call = a_call();
    let refused = place.call(workspace, run, call, vec![written("a", Expected::Absent, "y")]).await;
    assert!(matches!(refused, FilesCommitted::Conflict { .. }));
    assert_eq!(place.files.outcome(workspace.tenant_id, call).await.expect("an answer"), None);
    assert_eq!(place.seen(workspace, run, "a").await, Seen::Never);
}

#[tokio::test]
async fn artifacts_are_those_of_the_runs_that_it_knows() {
    let place = Place::new().await;
    let thread = place.thread().await;
    let first = place.world.cancelled(|new| new.thread_id = Some(thread)).await;
    let second = place.world.start(|new| new.thread_id = Some(thread)).await.expect("a run");
    let (alone, _) = place.run().await;
    let artifact = ArtifactId(Uuid::now_v7());
    sqlx::query(
        "INSERT INTO artifacts (tenant_id, artifact_id, run_id, media_type, bytes, sha256, content, created_at)
         VALUES ($1, $2, $3, 'text/plain', 4, 'x', 'long', now())",
    )
    .bind(place.world.tenant.0)
    .bind(artifact.0)
    .bind(first.0)
    .execute(&mut place.world.superuser().await)
    .await
    .expect("an artifact");
    let stranger = place.world.another_tenant().await;
    for (tenant, run, may) in [
        (place.world.tenant, first, true),
        (place.world.tenant, second, true),
        (place.world.tenant, alone, false),
        (stranger, first, false),
    ] {
        let found = place.files.artifact(tenant, run, artifact).await.expect("an answer");
        assert_eq!(found.is_some(), may);
        assert!(found.is_none_or(|(media_type, content)| media_type == "text/plain" && content == "long"));
    }
}
