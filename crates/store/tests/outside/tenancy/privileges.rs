//! What the two roles may touch, as a file that a reviewer sees change.

use std::fmt::Write as _;
use std::path::Path;

use crate::world::World;

const FILE: &str = "tests/outside/tenancy/privileges.txt";

/// Each role's privileges, table by table. Whole tables of `answerable_app` are said so: it sees one tenant's rows. What the
/// system role may touch is told by column.
async fn granted(world: &World) -> String {
    let rows: Vec<(String, String, String, String)> = sqlx::query_as(
        "SELECT grantee::text, p.table_name::text, privilege_type::text,
             CASE WHEN grantee = 'answerable_app' AND count(*) = max(c.columns) THEN '*'
             ELSE string_agg(column_name::text, ' ' ORDER BY column_name) END
         FROM information_schema.column_privileges p JOIN (
             SELECT table_name, count(*) AS columns FROM information_schema.columns
             WHERE table_schema = 'public' GROUP BY table_name) c ON c.table_name = p.table_name
         WHERE table_schema = 'public' AND grantee IN ('answerable_app', 'answerable_system', 'PUBLIC')
         GROUP BY grantee, p.table_name, privilege_type
         UNION ALL
         SELECT grantee::text, table_name::text, privilege_type::text, '*'
         FROM information_schema.table_privileges
         WHERE table_schema = 'public' AND grantee IN ('answerable_app', 'answerable_system', 'PUBLIC')
           AND privilege_type IN ('DELETE', 'TRUNCATE', 'TRIGGER')
         ORDER BY 1, 2, 3",
    )
    .fetch_all(&mut world.superuser().await)
    .await
    .expect("privileges");
    let mut text = String::new();
    let mut last = (String::new(), String::new());
    for (role, table, privilege, columns) in rows {
        if last.0 != role {
            let _ = writeln!(text, "\n{role}");
        }
        if (&last.0, &last.1) != (&role, &table) {
            let _ = writeln!(text, "  {table}");
        }
        let _ = writeln!(text, "    {privilege}: {columns}");
        last = (role, table);
    }
    text
}

#[tokio::test]
async fn the_roles_may_touch_what_the_file_says_and_no_more() {
    let world = World::new().await;
    let now = granted(&world).await;
    assert!(now.len() > 1000, "{now}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let body = written.split_once("\n\n").map_or("", |(_, body)| body);
    if body.trim() != now.trim() {
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("privileges.txt");
        std::fs::write(&fresh, &now).expect("written");
        let (old, new): (Vec<_>, Vec<_>) = (body.lines().collect(), now.lines().collect());
        let gone: Vec<_> = old.iter().filter(|line| !new.contains(line)).collect();
        let come: Vec<_> = new.iter().filter(|line| !old.contains(line)).collect();
        panic!(
            "{FILE} is another: gone {gone:#?}, come {come:#?}; what is true stands in {}",
            fresh.display()
        );
    }
}
