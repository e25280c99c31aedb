//! Versions: no change is made over what it isn't based on, and all of a commit or nothing.

use answerable_core::id::WorkspaceId;
use answerable_core::workspace::{MAX_FILE_BYTES, MAX_FILES, MAX_WORKSPACE_BYTES};
use answerable_ports::{Expected, FilesCommitted, WorkspaceStore as _};
use uuid::Uuid;

use super::{Place, a_call, deleted, stored, written};

#[tokio::test]
async fn a_change_is_made_over_what_it_expects_alone() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    use Expected::{Absent, Anything, Present, Version};
    for (number, (there, expected, may)) in [
        (false, Anything, true),
        (false, Absent, true),
        (false, Present, false),
        (false, Version(1), false),
        (true, Anything, true),
        (true, Absent, false),
        (true, Present, true),
        (true, Version(0), false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{number}.txt");
        let found = if there { Some(place.store(workspace, &name, "old").await) } else { None };
        let committed = place.put(workspace, vec![written(&name, expected, "new")]).await;
        match committed {
            FilesCommitted::Stored { version } if may => {
                assert_eq!(place.file(workspace, &name).await.expect("a file").version, version);
                assert_eq!(place.read(workspace, &name).await, "new");
            }
            FilesCommitted::Conflict { found: told, .. } if !may => {
                assert_eq!(told, found, "{there} {expected:?}");
                assert_eq!(place.file(workspace, &name).await.map(|file| file.version), found);
            }
            other => panic!("{there} {expected:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn no_version_comes_twice() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    let first = place.store(workspace, "a", "one").await;
    let other = place.store(workspace, "b", "one").await;
    stored(place.put(workspace, vec![deleted("a", Expected::Version(first))]).await);
    let again = place.store(workspace, "a", "one").await;
    assert!(first < other && other < again, "{first} {other} {again}");
    let stale = place.put(workspace, vec![written("a", Expected::Version(first), "x")]).await;
    assert!(matches!(stale, FilesCommitted::Conflict { found: Some(found), .. } if found == again));
}

#[tokio::test]
async fn of_many_writers_at_once_one_wins() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    for round in 0..5 {
        let based_on = place.store(workspace, "a", "old").await;
        let writers = (0..8).map(|writer| {
            let change = written("a", Expected::Version(based_on), &format!("{round} {writer}"));
            place.put(workspace, vec![change])
        });
        let all = futures::future::join_all(writers).await;
        let won = all.iter().filter(|done| matches!(done, FilesCommitted::Stored { .. })).count();
        assert_eq!(won, 1, "{all:?}");
    }
    let makers = (0..8).map(|_| place.put(workspace, vec![written("new", Expected::Absent, "x")]));
    let made = futures::future::join_all(makers).await;
    assert_eq!(made.iter().filter(|done| matches!(done, FilesCommitted::Stored { .. })).count(), 1);
}

#[tokio::test]
async fn all_of_a_commit_or_nothing() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", "old").await;
    let changes = vec![
        written("b", Expected::Absent, "new"),
        deleted("a", Expected::Present),
        written("c", Expected::Version(7), "new"),
    ];
    let refused = place.put(workspace, changes).await;
    assert!(matches!(refused, FilesCommitted::Conflict { found: None, .. }), "{refused:?}");
    assert_eq!(place.paths(workspace).await, ["a"]);
    let changes = vec![
        written("b", Expected::Absent, "1"),
        written("c/d", Expected::Absent, "2"),
        deleted("a", Expected::Present),
    ];
    let version = stored(place.put(workspace, changes).await);
    assert_eq!(place.paths(workspace).await, ["b", "c/d"]);
    assert_eq!(place.file(workspace, "c/d").await.expect("a file").version, version);
}

#[tokio::test]
async fn a_name_is_a_files_or_a_folders() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a/b", "x").await;
    place.store(workspace, "c", "x").await;
    for (name, file, within) in [("a", "a", "a/b"), ("a/b/c/d", "a/b", "a/b/c/d"), ("c/x", "c", "c/x")] {
        let refused = place.put(workspace, vec![written(name, Expected::Anything, "x")]).await;
        let FilesCommitted::InTheWay { file: told, within: of } = refused else { panic!("{refused:?}") };
        assert_eq!((told.as_str(), of.as_str()), (file, within));
    }
    for fine in ["a.b", "a/b2", "ab", "c0", "c.x"] {
        place.store(workspace, fine, "x").await;
    }
    // A folder takes the place of a file that goes with the same commit, and the other way round.
    let swapped = vec![
        deleted("c", Expected::Present),
        written("c/x", Expected::Absent, "x"),
        deleted("a/b", Expected::Present),
        deleted("a/b2", Expected::Present),
        written("a", Expected::Absent, "x"),
    ];
    stored(place.put(workspace, swapped).await);
    assert_eq!(place.paths(workspace).await, ["a", "a.b", "ab", "c.x", "c/x", "c0"]);
}

#[tokio::test]
async fn a_workspace_has_bounds() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    place.store(workspace, "a", "12345").await;
    let set = |files: u64, bytes: u64| {
        let world = &place.world;
        async move {
            sqlx::query("UPDATE workspaces SET files = $1, bytes = $2")
                .bind(i64::try_from(files).expect("a number"))
                .bind(i64::try_from(bytes).expect("a number"))
                .execute(&mut world.superuser().await)
                .await
                .expect("set");
        }
    };
    let over = |committed: &FilesCommitted| matches!(committed, FilesCommitted::OverLimit(_));
    set(MAX_FILES, 5).await;
    assert!(over(&place.put(workspace, vec![written("b", Expected::Anything, "x")]).await));
    let replaced = place.put(workspace, vec![written("a", Expected::Anything, "123456")]).await;
    assert!(!over(&replaced), "one that is there may change");
    set(1, MAX_WORKSPACE_BYTES).await;
    assert!(over(&place.put(workspace, vec![written("a", Expected::Anything, "1234567")]).await));
    let smaller = place.put(workspace, vec![written("a", Expected::Anything, "1")]).await;
    assert!(!over(&smaller), "it may become smaller");
    let large = "x".repeat(usize::try_from(MAX_FILE_BYTES).expect("a size") + 1);
    let large = place.call(workspace, run, a_call(), vec![written("b", Expected::Anything, &large)]).await;
    assert!(over(&large));
    assert_eq!(place.shelf.count(workspace.tenant_id), 0, "kept before it was judged");
}

#[tokio::test]
async fn counts_follow_the_files() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", "12345").await;
    place.store(workspace, "b", "123").await;
    place.store(workspace, "a", "1").await;
    place.put(workspace, vec![deleted("b", Expected::Present)]).await;
    place.put(workspace, vec![deleted("never", Expected::Anything)]).await;
    let counts: (i64, i64) = sqlx::query_as("SELECT files, bytes FROM workspaces")
        .fetch_one(&mut place.world.superuser().await)
        .await
        .expect("counts");
    assert_eq!(counts, (1, 1));
}

#[tokio::test]
async fn a_list_is_in_the_order_of_bytes() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    let names = ["B", "a", "a%c", "a_c", "abc", "b/1", "b/2", "b/3", "ö"];
    for name in names {
        place.store(workspace, name, "x").await;
    }
    let list = |prefix: &'static str, after: Option<&'static str>, limit| {
        let files = &place.files;
        async move {
            let files = files.list(workspace, prefix, after, limit).await.expect("files");
            files.iter().map(|file| file.path.to_string()).collect::<Vec<_>>()
        }
    };
    assert_eq!(list("", None, 100).await, names);
    assert_eq!(list("a%", None, 100).await, ["a%c"]);
    assert_eq!(list("a_", None, 100).await, ["a_c"]);
    assert_eq!(list("b/", None, 2).await, ["b/1", "b/2"]);
    assert_eq!(list("b/", Some("b/2"), 2).await, ["b/3"]);
    assert_eq!(list("c", None, 2).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_workspace_is_somebodys_or_there_is_none() {
    let place = Place::new().await;
    let (run, workspace) = place.run().await;
    place.store(workspace, "a", "mine").await;
    let stranger = place.world.another_tenant().await;
    let theirs = place.workspace(stranger, workspace.workspace_id.0);
    let nobodys = place.workspace(workspace.tenant_id, Uuid::now_v7());
    for other in [theirs, nobodys] {
        assert!(!place.files.exists(other).await.expect("an answer"));
        assert_eq!(place.file(other, "a").await, None);
        let refused = place.put(other, vec![written("a", Expected::Anything, "x")]).await;
        assert_eq!(refused, FilesCommitted::NoWorkspace);
        let refused = place.call(other, run, a_call(), vec![written("a", Expected::Anything, "x")]).await;
        assert_eq!(refused, FilesCommitted::NoWorkspace);
    }
    let file = place.file(workspace, "a").await.expect("a file");
    assert!(place.files.content(stranger, &file).await.is_err(), "a hash opens no other tenant's content");
    assert_eq!(place.read(workspace, "a").await, "mine");
    assert!(place.files.exists(workspace).await.expect("an answer"));
    assert_ne!(workspace.workspace_id, WorkspaceId(run.0));
}
