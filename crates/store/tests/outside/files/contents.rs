//! What files hold: each content once, large ones in object storage, and none for longer than it is of use.

use std::sync::atomic::Ordering;

use answerable_core::workspace::MAX_WORKSPACE_BYTES;
use answerable_ports::{
    Author, Change, Expected, FilesCommitted, NewContent, StoreError, Workspace, WorkspaceCommit,
    WorkspaceStore as _,
};

use super::{Place, a_call, deleted, path, stored, written};

fn large(letter: &str) -> String {
    letter.repeat((64 << 10) + 1)
}

impl Place {
    /// Contents in rows, of all tenants: those with their bytes and those that are elsewhere.
    async fn blobs(&self) -> (i64, i64) {
        sqlx::query_as(
            "SELECT count(*) FILTER (WHERE content IS NOT NULL), count(*) FILTER (WHERE content IS NULL) FROM blobs",
        )
        .fetch_one(&mut self.world.superuser().await)
        .await
        .expect("counts")
    }

    /// A day passes for contents that are unused.
    async fn a_day_passes(&self) {
        sqlx::query("UPDATE blobs SET unused_since = unused_since - interval '25 hours'")
            .execute(&mut self.world.superuser().await)
            .await
            .expect("passed");
    }

    async fn media_type(&self, workspace: Workspace, name: &str) -> String {
        self.file(workspace, name).await.expect("a file").media_type
    }
}

#[tokio::test]
async fn large_contents_are_elsewhere_and_each_is_kept_once() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    let (_, other) = place.run().await;
    for (workspace, name) in [(workspace, "a"), (workspace, "b"), (other, "a")] {
        place.store(workspace, name, &large("x")).await;
        place.store(workspace, &format!("{name}.small"), "small").await;
    }
    assert_eq!(place.blobs().await, (1, 1));
    assert_eq!(place.shelf.count(workspace.tenant_id), 1);
    assert_eq!(place.read(other, "a").await, large("x"));
    assert_eq!(place.read(workspace, "b.small").await, "small");
    let file = place.file(workspace, "a").await.expect("a file");
    assert_eq!(file.bytes, large("x").len() as u64);
}

#[tokio::test]
async fn a_damaged_content_is_told_and_not_given() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", &large("x")).await;
    place.shelf.damage();
    let file = place.file(workspace, "a").await.expect("a file");
    let given = place.files.content(workspace.tenant_id, &file).await;
    assert!(matches!(given, Err(StoreError::Broken(_))), "{given:?}");
}

#[tokio::test]
async fn nothing_is_written_while_object_storage_is_away() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.shelf.is_away.store(true, Ordering::Relaxed);
    let by = Author::Caller("key_1".into());
    let changes = vec![written("a", Expected::Anything, &large("x"))];
    let refused = place.files.commit(WorkspaceCommit { workspace, by, changes }).await;
    assert!(matches!(refused, Err(StoreError::Away(_))), "{refused:?}");
    assert_eq!(place.file(workspace, "a").await, None);
    place.store(workspace, "small", "x").await;
    place.shelf.is_away.store(false, Ordering::Relaxed);
    place.store(workspace, "a", &large("x")).await;
    assert_eq!(place.read(workspace, "a").await, large("x"));
}

#[tokio::test]
async fn what_no_file_holds_goes_after_a_day() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    let tenant = workspace.tenant_id;
    for (name, content) in [("a", large("x")), ("b", large("x")), ("c", "small".into()), ("d", large("y"))] {
        place.store(workspace, name, &content).await;
    }
    place.store(workspace, "a", "new").await;
    place.store(workspace, "d", &large("z")).await;
    stored(place.put(workspace, vec![deleted("c", Expected::Present)]).await);
    assert_eq!(place.files.sweep(10).await.expect("swept"), 0, "a reader may be at it still");
    place.a_day_passes().await;
    assert_eq!(place.files.sweep(10).await.expect("swept"), 2, "small and y");
    assert_eq!((place.blobs().await, place.shelf.count(tenant)), ((1, 2), 2));
    assert_eq!(place.read(workspace, "b").await, large("x"));
    assert_eq!(place.read(workspace, "d").await, large("z"));
    place.a_day_passes().await;
    assert_eq!(place.files.sweep(10).await.expect("swept"), 0);
}

#[tokio::test]
async fn what_a_failed_write_left_goes_too() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "b", "a file").await;
    let refused = place.put(workspace, vec![written("b/c", Expected::Absent, &large("x"))]).await;
    assert!(matches!(refused, FilesCommitted::InTheWay { .. }));
    assert_eq!((place.blobs().await, place.shelf.count(workspace.tenant_id)), ((1, 1), 1));
    place.a_day_passes().await;
    // Taken up again just before it is swept.
    place.store(workspace, "a", &large("x")).await;
    assert_eq!(place.files.sweep(10).await.expect("swept"), 0);
    assert_eq!(place.read(workspace, "a").await, large("x"));
    place.put(workspace, vec![deleted("a", Expected::Present)]).await;
    place.a_day_passes().await;
    assert_eq!(place.files.sweep(10).await.expect("swept"), 1);
    assert_eq!((place.blobs().await, place.shelf.count(workspace.tenant_id)), ((1, 0), 0));
}

#[tokio::test]
async fn a_wrong_mark_takes_nothing_away() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", &large("x")).await;
    // As of two that left and took it at the same time.
    sqlx::query("UPDATE blobs SET unused_since = now()")
        .execute(&mut place.world.superuser().await)
        .await
        .expect("marked");
    place.a_day_passes().await;
    assert_eq!(place.files.sweep(10).await.expect("swept"), 0);
    assert_eq!(place.read(workspace, "a").await, large("x"));
    let marked: i64 = sqlx::query_scalar("SELECT count(*) FROM blobs WHERE unused_since IS NOT NULL")
        .fetch_one(&mut place.world.superuser().await)
        .await
        .expect("a count");
    assert_eq!(marked, 0);
}

#[tokio::test]
async fn a_sweep_that_fails_is_made_again() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", &large("x")).await;
    place.put(workspace, vec![deleted("a", Expected::Present)]).await;
    place.a_day_passes().await;
    place.shelf.is_away.store(true, Ordering::Relaxed);
    assert!(place.files.sweep(10).await.is_err());
    assert_eq!((place.blobs().await, place.shelf.count(workspace.tenant_id)), ((0, 0), 1));
    place.shelf.is_away.store(false, Ordering::Relaxed);
    place.files.sweep(10).await.expect("swept");
    assert_eq!(place.shelf.count(workspace.tenant_id), 0, "there was word of its object");
    let word: i64 = sqlx::query_scalar("SELECT count(*) FROM gone_objects")
        .fetch_one(&mut place.world.superuser().await)
        .await
        .expect("a count");
    assert_eq!(word, 0);
}

#[tokio::test]
async fn an_object_that_goes_late_takes_no_newer_one_along() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", &large("x")).await;
    place.put(workspace, vec![deleted("a", Expected::Present)]).await;
    place.a_day_passes().await;
    place.shelf.removals.shut();
    let sweep = async {
        place.files.sweep(10).await.expect("swept");
    };
    let meanwhile = async {
        place.shelf.removals.reached().await;
        // Nobody waits for the sweep, and the same content is kept anew.
        place.store(workspace, "b", &large("x")).await;
        assert_eq!(place.shelf.count(workspace.tenant_id), 2);
        place.shelf.removals.open();
    };
    tokio::join!(sweep, meanwhile);
    assert_eq!(place.shelf.count(workspace.tenant_id), 1);
    assert_eq!(place.read(workspace, "b").await, large("x"));
}

#[tokio::test]
async fn many_large_contents_are_kept_some_at_once() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.shelf.is_slow.store(true, Ordering::Relaxed);
    let change = |number: usize| {
        written(
            &number.to_string(),
            Expected::Absent,
            &large("x").replacen('x', &(number / 2).to_string(), 1),
        )
    };
    let changes: Vec<_> = (0..80).map(change).collect();
    stored(place.put(workspace, changes.clone()).await);
    assert_eq!((place.blobs().await, place.shelf.count(workspace.tenant_id)), ((0, 40), 40));
    let most = place.shelf.most_putting.load(Ordering::Relaxed);
    assert!((8..=16).contains(&most), "{most} at once");
    let files = place.files.snapshot(workspace).await.expect("files");
    let given = place.files.contents(workspace.tenant_id, &files).await.expect("contents");
    for (file, content) in files.iter().zip(&given) {
        let change = changes.iter().find(|change| change.path == file.path).expect("its change");
        assert_eq!(Some(content), change.content.as_ref().map(|content| &content.bytes));
    }
    assert_eq!(given.len(), 80, "5 MB");
}

#[tokio::test]
async fn contents_are_given_as_many_as_there_is_room_for() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    let tenant = workspace.tenant_id;
    let sizes = [3 << 20, 1, 4 << 20, 2 << 20, 9 << 20, 0];
    for (number, size) in sizes.into_iter().enumerate() {
        place.store(workspace, &number.to_string(), &"x".repeat(size)).await;
    }
    let files = place.files.snapshot(workspace).await.expect("files");
    let (mut given, mut asked) = (Vec::new(), Vec::new());
    while given.len() < files.len() {
        let some = place.files.contents(tenant, &files[given.len()..]).await.expect("contents");
        asked.push(some.len());
        given.extend(some.iter().map(|content| content.len()));
    }
    assert_eq!((given, asked), (sizes.to_vec(), vec![3, 1, 1, 1]));
    assert_eq!(place.files.contents(tenant, &[]).await.expect("contents"), Vec::<bytes::Bytes>::new());
}

#[tokio::test]
async fn what_can_be_known_to_fail_is_not_put_anywhere() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    place.store(workspace, "a", "x").await;
    let nobodys = place.workspace(workspace.tenant_id, uuid::Uuid::now_v7());
    for (workspace, name, expected) in [
        (workspace, "a", Expected::Absent),
        (workspace, "a", Expected::Version(99)),
        (workspace, "b", Expected::Present),
        (nobodys, "a", Expected::Anything),
    ] {
        let refused = place.put(workspace, vec![written(name, expected, &large("y"))]).await;
        assert!(!matches!(refused, FilesCommitted::Stored { .. }), "{name} {expected:?}");
    }
    sqlx::query("UPDATE workspaces SET bytes = $1")
        .bind(i64::try_from(MAX_WORKSPACE_BYTES).expect("a number"))
        .execute(&mut place.world.superuser().await)
        .await
        .expect("full");
    let refused =
        place.call(workspace, run, a_call(), vec![written("b", Expected::Absent, &large("y"))]).await;
    assert!(matches!(refused, FilesCommitted::OverLimit(_)), "{refused:?}");
    assert_eq!((place.blobs().await, place.shelf.count(workspace.tenant_id)), ((1, 0), 0));
}

#[tokio::test]
async fn who_replaces_large_files_without_end_must_wait() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", &large("x")).await;
    place.store(workspace, "a", &large("y")).await;
    let unused = |bytes: i64| {
        let world = &place.world;
        async move {
            sqlx::query("UPDATE blobs SET bytes = $1 WHERE unused_since IS NOT NULL")
                .bind(bytes)
                .execute(&mut world.superuser().await)
                .await
                .expect("changed");
        }
    };
    unused(16 << 30).await;
    let refused = place.put(workspace, vec![written("a", Expected::Anything, &large("z"))]).await;
    assert!(
        matches!(&refused, FilesCommitted::OverLimit(words) if words.contains("after a day")),
        "{refused:?}"
    );
    place.store(workspace, "a", "small ones go on").await;
    unused(1).await;
    place.store(workspace, "a", &large("z")).await;
}

#[tokio::test]
async fn writers_of_the_same_contents_wait_for_each_other_in_no_circle() {
    let place = Place::new().await;
    let mut workspaces = Vec::new();
    for _ in 0..4 {
        workspaces.push(place.run().await.1);
    }
    for round in 0..6 {
        let writes = workspaces.iter().enumerate().map(|(number, workspace)| {
            let mut changes: Vec<_> = (0..6)
                .map(|file| {
                    written(&file.to_string(), Expected::Anything, &format!("{}", (file + round) % 6))
                })
                .collect();
            if number % 2 == 0 {
                changes.reverse();
            }
            place.put(*workspace, changes)
        });
        futures::future::join_all(writes).await.into_iter().for_each(|done| {
            stored(done);
        });
    }
}

#[tokio::test]
async fn a_type_that_somebody_gave_stays() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", "text").await;
    assert_eq!(place.media_type(workspace, "a").await, "text/plain; charset=utf-8");
    place.store(workspace, "a", "no\0text").await;
    assert_eq!(place.media_type(workspace, "a").await, "application/octet-stream");
    let given = NewContent { bytes: "{}".into(), media_type: Some("application/json".into()) };
    let change = Change { path: path("a"), expected: Expected::Anything, content: Some(given) };
    place.put(workspace, vec![change]).await;
    place.store(workspace, "a", "[]").await;
    assert_eq!(place.media_type(workspace, "a").await, "application/json");
}
