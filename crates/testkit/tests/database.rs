//! Each test has a database of its own.

use answerable_testkit::TestDatabase;
use sqlx::{Connection, PgConnection, Row};

async fn count(connection: &mut PgConnection, name: &str) -> i64 {
    let row = sqlx::query("SELECT count(*) FROM pg_database WHERE datname = $1").bind(name);
    row.fetch_one(connection).await.expect("a count").get(0)
}

async fn name(connection: &mut PgConnection) -> String {
    sqlx::query("SELECT current_database()::text").fetch_one(connection).await.expect("a name").get(0)
}

#[tokio::test]
async fn databases_are_private_and_dropped() {
    let (one, two) = tokio::join!(TestDatabase::create(), TestDatabase::create());
    let (one, two) = (one.expect("a database"), two.expect("another"));
    let mut in_one = PgConnection::connect(&one.url).await.expect("a connection");
    let mut in_two = PgConnection::connect(&two.url).await.expect("a connection");
    let (name_one, name_two) = (name(&mut in_one).await, name(&mut in_two).await);
    assert_ne!(name_one, name_two);
    sqlx::query("CREATE TABLE only_here (n int)").execute(&mut in_one).await.expect("a table");
    assert!(sqlx::query("SELECT n FROM only_here").fetch_optional(&mut in_two).await.is_err());
    drop(one);
    assert_eq!(count(&mut in_two, &name_one).await, 0, "dropped while a connection was open");
    assert_eq!(count(&mut in_two, &name_two).await, 1);
}

#[tokio::test]
async fn every_migration_is_applied() {
    let database = TestDatabase::create().await.expect("a database");
    let mut connection = PgConnection::connect(&database.url).await.expect("a connection");
    let applied = sqlx::query("SELECT count(*) FROM _sqlx_migrations WHERE success");
    let applied: i64 = applied.fetch_one(&mut connection).await.expect("a count").get(0);
    let files =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations")).expect("a folder");
    let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
    let wanted = names.filter(|name| name.ends_with(".sql") && !name.ends_with(".down.sql")).count();
    assert_eq!(usize::try_from(applied).expect("a number"), wanted);
}
