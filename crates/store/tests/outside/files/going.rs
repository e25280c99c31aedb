//! Files go with the run, the thread or the tenant that had them.

use std::collections::BTreeMap;

use answerable_core::id::ThreadId;
use answerable_ports::{Expected, FilesCommitted, Workspace};
use answerable_store::{RunDeleted, ThreadDeleted};

use super::{Place, a_call, written};
use crate::deleting::delete;

fn large() -> String {
    "x".repeat((64 << 10) + 1)
}

impl Place {
    /// Rows of files, of what was seen, and of workspaces.
    async fn rows(&self) -> (i64, i64, i64) {
        sqlx::query_as(
            "SELECT (SELECT count(*) FROM workspace_files), (SELECT count(*) FROM workspace_seen),
                 (SELECT count(*) FROM workspaces)",
        )
        .fetch_one(&mut self.world.superuser().await)
        .await
        .expect("counts")
    }

    async fn thread_with_files(&self) -> (ThreadId, Workspace) {
        let mut tx = self.world.tx().await;
        let thread = tx.thread_create(&BTreeMap::new()).await.expect("a thread");
        tx.commit().await.expect("committed");
        let workspace = self.workspace(self.world.tenant, thread.workspace_id);
        self.store(workspace, "a", &large()).await;
        (ThreadId(thread.thread_id), workspace)
    }

    async fn delete_thread(&self, thread: ThreadId) -> ThreadDeleted {
        let mut tx = self.world.tx().await;
        let deleted = tx.thread_delete(thread).await.expect("an answer");
        tx.commit().await.expect("committed");
        deleted
    }
}

#[tokio::test]
async fn a_run_without_a_thread_takes_its_files_along() {
    let place = Place::new().await;
    let run = place.world.cancelled(|_| ()).await;
    let workspace = place.workspace_of(run).await;
    place.call(workspace, run, a_call(), vec![written("a", Expected::Absent, &large())]).await;
    assert_eq!(place.rows().await, (1, 1, 1));
    assert_eq!(delete(&place.world, run).await, RunDeleted::Deleted);
    assert_eq!(place.rows().await, (0, 0, 0));
    assert!(!place.files.exists(workspace).await.expect("an answer"));
    let late = place.put(workspace, vec![written("a", Expected::Anything, "x")]).await;
    assert_eq!(late, FilesCommitted::NoWorkspace);
    sqlx::query("UPDATE blobs SET unused_since = unused_since - interval '25 hours'")
        .execute(&mut place.world.superuser().await)
        .await
        .expect("a day passes");
    assert_eq!(place.files.sweep(1).await.expect("swept"), 1);
    assert_eq!(place.shelf.count(workspace.tenant_id), 0);
}

#[tokio::test]
async fn a_threads_files_stay_when_a_run_of_it_goes() {
    let place = Place::new().await;
    let (thread, workspace) = place.thread_with_files().await;
    let run = place.world.cancelled(|new| new.thread_id = Some(thread)).await;
    place.call(workspace, run, a_call(), vec![written("b", Expected::Absent, "x")]).await;
    assert_eq!(delete(&place.world, run).await, RunDeleted::Deleted);
    assert_eq!(place.paths(workspace).await, ["a", "b"]);
}

#[tokio::test]
async fn a_thread_takes_its_files_along_and_its_runs_stay() {
    let place = Place::new().await;
    let (thread, workspace) = place.thread_with_files().await;
    let run = place.world.cancelled(|new| new.thread_id = Some(thread)).await;
    assert_eq!(place.delete_thread(thread).await, ThreadDeleted::Deleted);
    assert_eq!(place.rows().await, (0, 0, 0));
    assert!(!place.files.exists(workspace).await.expect("an answer"));
    let late = place.call(workspace, run, a_call(), vec![written("a", Expected::Anything, "x")]).await;
    assert_eq!(late, FilesCommitted::NoWorkspace);
    assert_eq!(place.world.view(run).await.run_id, run.0);
}

#[tokio::test]
async fn no_run_keeps_the_files_of_a_thread_that_is_gone() {
    let place = Place::new().await;
    let (thread, workspace) = place.thread_with_files().await;
    let run = place.world.cancelled(|new| new.thread_id = Some(thread)).await;
    // One that it called, and one that goes on from that: both work on the thread's files and are in no thread.
    let (called, next) = (place.world.start(|_| ()).await.expect("a run"), place.run().await.0);
    let mut superuser = place.world.superuser().await;
    for run in [called, next] {
        sqlx::query("UPDATE runs SET workspace_id = $1 WHERE run_id = $2")
            .bind(workspace.workspace_id.0)
            .bind(run.0)
            .execute(&mut superuser)
            .await
            .expect("shared");
    }
    sqlx::query("INSERT INTO children (tenant_id, run_id, parent_run_id) VALUES ($1, $2, $3)")
        .bind(workspace.tenant_id.0)
        .bind(called.0)
        .bind(run.0)
        .execute(&mut superuser)
        .await
        .expect("a child");
    let write = || vec![written("b", Expected::Anything, &large())];
    assert!(matches!(place.call(workspace, called, a_call(), write()).await, FilesCommitted::Stored { .. }));
    assert_eq!(place.delete_thread(thread).await, ThreadDeleted::Deleted);
    assert!(!place.files.exists(workspace).await.expect("an answer"));
    for small in ["x", &large()] {
        let late = || vec![written("b", Expected::Anything, small)];
        assert_eq!(place.put(workspace, late()).await, FilesCommitted::NoWorkspace);
        assert_eq!(place.call(workspace, called, a_call(), late()).await, FilesCommitted::NoWorkspace);
        assert_eq!(place.call(workspace, next, a_call(), late()).await, FilesCommitted::NoWorkspace);
    }
    assert_eq!(place.rows().await, (0, 0, 0));
}

#[tokio::test]
async fn a_called_run_alone_has_no_files() {
    let place = Place::new().await;
    let (called, workspace) = place.run().await;
    sqlx::query("INSERT INTO children (tenant_id, run_id) VALUES ($1, $2)")
        .bind(workspace.tenant_id.0)
        .bind(called.0)
        .execute(&mut place.world.superuser().await)
        .await
        .expect("a child");
    assert!(!place.files.exists(workspace).await.expect("an answer"), "they were its caller's");
    let late = place.call(workspace, called, a_call(), vec![written("a", Expected::Absent, "x")]).await;
    assert_eq!(late, FilesCommitted::NoWorkspace);
}

#[tokio::test]
async fn writers_and_deletions_at_once_leave_nothing() {
    let place = Place::new().await;
    for round in 0..8 {
        let (thread, workspace) = place.thread_with_files().await;
        let run = place.world.cancelled(|_| ()).await;
        let own = place.workspace_of(run).await;
        let write = |workspace, name: &'static str| {
            let change = written(name, Expected::Anything, &format!("{round}"));
            place.put(workspace, vec![change])
        };
        let (deleted, gone, ..) = tokio::join!(
            place.delete_thread(thread),
            delete(&place.world, run),
            write(workspace, "b"),
            write(own, "b"),
            write(own, "c"),
        );
        assert_eq!((deleted, gone), (ThreadDeleted::Deleted, RunDeleted::Deleted));
        assert_eq!(place.rows().await, (0, 0, 0));
    }
}

#[tokio::test]
async fn a_tenant_takes_all_along_and_its_objects_go_with_the_next_sweep() {
    let place = Place::new().await;
    let (_, workspace) = place.thread_with_files().await;
    let (run, own) = place.run().await;
    place.call(own, run, a_call(), vec![written("a", Expected::Absent, "small")]).await;
    let mut tx = place.world.tx().await;
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
    assert_eq!(place.rows().await, (0, 0, 0));
    assert_eq!(place.shelf.count(workspace.tenant_id), 1);
    place.files.sweep(1).await.expect("swept");
    assert_eq!(place.shelf.count(workspace.tenant_id), 0);
    let mut superuser = place.world.superuser().await;
    let left = "SELECT count(*) FROM gone_tenants";
    let word: i64 = sqlx::query_scalar(left).fetch_one(&mut superuser).await.expect("a count");
    assert_eq!(word, 1, "for what was under way");
    let later = "UPDATE gone_tenants SET gone_at = gone_at - interval '25 hours'";
    sqlx::query(later).execute(&mut superuser).await.expect("a day passes");
    place.files.sweep(1).await.expect("swept");
    let word: i64 = sqlx::query_scalar(left).fetch_one(&mut superuser).await.expect("a count");
    assert_eq!(word, 0);
}

#[tokio::test]
async fn a_tenant_without_large_files_leaves_no_word() {
    let place = Place::new().await;
    let (_, workspace) = place.run().await;
    place.store(workspace, "a", "small").await;
    let mut tx = place.world.tx().await;
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
    let word: i64 = sqlx::query_scalar("SELECT count(*) FROM gone_tenants")
        .fetch_one(&mut place.world.superuser().await)
        .await
        .expect("a count");
    assert_eq!(word, 0);
}
