//! A tenant that is deleted leaves nothing, and takes nothing of others along.

use std::collections::BTreeMap;
use std::sync::Arc;

use answerable_store::{AuditFilter, Workspaces};
use sqlx::PgConnection;

use super::full::two;
use super::rows::{counts, digest, ids, tables_of_tenants, texts, that_hold};
use crate::files::shelf::Shelf;
use crate::world::World;

#[tokio::test]
async fn every_table_has_a_row_of_it_before_and_none_after() {
    let (mut world, shelf) = (World::new().await, Arc::new(Shelf::default()));
    let files = Workspaces::new(world.store.clone(), Arc::clone(&shelf) as Arc<_>);
    let (stays, goes) = two(&mut world, &files, ["stays-word", "goes-word"]).await;
    let mut superuser = world.superuser().await;
    let before = counts(&mut superuser, goes).await;
    // Word of a tenant that is gone is written by its deletion.
    let before = before.into_iter().filter(|(table, _)| table != "gone_tenants").collect::<BTreeMap<_, _>>();
    let empty: Vec<_> = before.iter().filter(|(_, rows)| **rows == 0).map(|(table, _)| table).collect();
    assert!(empty.is_empty(), "{empty:?}: let full.rs put rows there, so that their deletion is seen");
    let mut words: Vec<String> = ids(&mut superuser, goes).await.into_iter().collect();
    let others = ids(&mut superuser, stays).await;
    words.retain(|id| !others.contains(id));
    words.push("goes-word".into());
    let held = that_hold(&mut superuser, &words[words.len() - 1..]).await;
    assert!(held.len() > 20, "the word stands in few tables: {held:?}");
    let mut all = tables_of_tenants(&mut superuser).await;
    all.retain(|table| !table.starts_with("gone_"));
    let untouched = texts(&mut superuser, &digest(&all, stays)).await.expect("a digest");
    assert!(shelf.count(goes) > 0 && shelf.count(stays) > 0, "both have objects");

    delete(&world).await;
    swept(&files, &mut superuser).await;

    let mut left = counts(&mut superuser, goes).await;
    left.retain(|_, rows| *rows > 0);
    assert!(left.is_empty(), "{left:?}");
    // The operator's record says that it was there, and that it went: its id alone.
    let mut named = that_hold(&mut superuser, &words).await;
    assert_eq!(named.remove("audit"), Some(told(&world).await), "in the operator's record alone");
    assert!(named.is_empty(), "{named:?}");
    assert!(that_hold(&mut superuser, &["goes-word".to_owned()]).await.is_empty());
    assert_eq!(shelf.count(goes), 0);
    let now = texts(&mut superuser, &digest(&all, stays)).await.expect("a digest");
    assert_eq!(now, untouched, "another tenant's rows changed");
    assert!(shelf.count(stays) > 0);
}

async fn delete(world: &World) {
    let mut tx = world.tx().await;
    assert!(tx.tenant_delete().await.expect("an answer"));
    tx.commit().await.expect("committed");
}

/// A day passes, and what is swept then is swept.
async fn swept(files: &Workspaces, superuser: &mut PgConnection) {
    let passed = "UPDATE gone_tenants SET gone_at = gone_at - interval '25 hours'";
    assert_eq!(sqlx::query(passed).execute(superuser).await.expect("a day passes").rows_affected(), 1);
    files.sweep(1).await.expect("swept");
}

/// How many entries the operator's record has of it; the last says that it is gone.
async fn told(world: &World) -> i64 {
    let mut tx = world.store.system().await.expect("a transaction");
    let filter = AuditFilter { ascending: true, ..AuditFilter::default() };
    let entries = tx.operator_audit_list(&filter, 1000).await.expect("entries");
    let of_it =
        entries.iter().filter(|entry| entry.to_json().to_string().contains(&world.tenant.0.to_string()));
    let told: Vec<&str> = of_it.map(|entry| entry.action.as_str()).collect();
    assert_eq!((told.first(), told.last()), (Some(&"tenant.create"), Some(&"tenant.delete")), "{told:?}");
    i64::try_from(told.len()).expect("few")
}
