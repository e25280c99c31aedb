//! What must be true of the schema, read from PostgreSQL itself: a new table, function or view can't forget it.

use std::collections::BTreeSet;
use std::path::Path;

use sqlx::PgConnection;

use super::rows::{tables, tables_of_tenants};
use crate::world::World;

/// Tables whose rows are no tenant's.
const OF_NOBODY: [(&str, &str); 1] = [("servers", "which servers are alive, by ids that they drew")];

/// Tables of tenants where something else than the tenant leads a unique key, which a stranger could run into.
const OTHER_KEYS: [(&str, &str); 4] = [
    ("api_keys", "ids that the server draws: a key's id is all that says whose it is"),
    ("approvals", "ids that the server draws: an approval's link says no more"),
    ("gone_objects", "ids that the database drew, and that it tells nobody"),
    ("span_outbox", "numbers that the database counts; nobody chooses one"),
];

/// Functions that run as `answerable_app`, whoever calls them, and why. As anybody else none does.
const RUN_AS_ANOTHER: [(&str, &str); 12] = [
    ("commit_run", "the engine's one write sets its tenant itself, in one round trip"),
    ("count_agents", COUNTS),
    ("count_api_keys", COUNTS),
    ("count_artifacts", COUNTS),
    ("count_mcp_servers", COUNTS),
    ("count_providers", COUNTS),
    ("count_schedules", COUNTS),
    ("count_secrets", COUNTS),
    ("count_threads", COUNTS),
    ("count_webhooks", COUNTS),
    ("count_workspaces", COUNTS),
    ("rules_change", "a tenant's rules get their number whoever changes them"),
];
/// Triggers that are fired by either role.
const COUNTS: &str = "what a tenant has is counted whoever makes it or takes it away";

/// The one column of each row.
async fn found(superuser: &mut PgConnection, query: &'static str) -> Vec<String> {
    sqlx::query_scalar(query).fetch_all(superuser).await.expect("an answer")
}

fn named(list: &[(&str, &str)]) -> BTreeSet<String> {
    list.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[tokio::test]
async fn every_table_is_some_tenants_or_known_to_be_nobodys() {
    let world = World::new().await;
    let mut superuser = world.superuser().await;
    let of_tenants: BTreeSet<String> = tables_of_tenants(&mut superuser).await.into_iter().collect();
    let all: BTreeSet<String> = tables(&mut superuser).await.into_iter().collect();
    let others: BTreeSet<String> = all.difference(&of_tenants).cloned().collect();
    assert_eq!(others, named(&OF_NOBODY));
    assert!(of_tenants.len() > 45, "{of_tenants:?}");
}

#[tokio::test]
async fn row_security_is_forced_everywhere_and_parts_by_the_tenant() {
    let world = World::new().await;
    let mut superuser = world.superuser().await;
    let open = found(
        &mut superuser,
        "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
    )
    .await;
    assert!(open.is_empty(), "{open:?} have no forced row-level security");
    let unparted = found(
        &mut superuser,
        "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'own_tenant'
                  AND p.polcmd = '*' AND p.polroles = ARRAY['answerable_app'::regrole::oid]
                  AND pg_get_expr(p.polqual, c.oid) = '(tenant_id = app_tenant())'
                  AND pg_get_expr(p.polwithcheck, c.oid) = '(tenant_id = app_tenant())') <> 1",
    )
    .await;
    assert!(unparted.is_empty(), "{unparted:?} have no policy own_tenant for answerable_app");
    let others = found(
        &mut superuser,
        "SELECT format('%s on %s', polname, polrelid::regclass) FROM pg_policy
         WHERE polname <> 'own_tenant' AND polroles <> ARRAY['answerable_system'::regrole::oid]
            OR polname = 'own_tenant' AND (SELECT relispartition FROM pg_class WHERE oid = polrelid)",
    )
    .await;
    assert!(others.is_empty(), "{others:?} open something to others than the system role");
}

#[tokio::test]
async fn partitions_are_nobodys() {
    let world = World::new().await;
    let granted = found(
        &mut world.superuser().await,
        "SELECT format('%s to %s', c.relname, a.grantee::regrole) FROM pg_class c, aclexplode(c.relacl) a
         WHERE c.relnamespace = 'public'::regnamespace AND c.relispartition AND a.grantee <> c.relowner",
    )
    .await;
    assert!(granted.is_empty(), "{granted:?}: rows are reached through the parent, which has the policies");
}

#[tokio::test]
async fn the_tenant_leads_every_unique_key() {
    let world = World::new().await;
    let mut superuser = world.superuser().await;
    let others: BTreeSet<String> = found(
        &mut superuser,
        "SELECT DISTINCT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
         JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'tenant_id'
         WHERE c.relnamespace = 'public'::regnamespace AND i.indisunique AND i.indkey[0] <> t.attnum",
    )
    .await
    .into_iter()
    .collect();
    assert_eq!(others, named(&OTHER_KEYS), "whoever runs into another's key learns of it");
    let without = found(
        &mut superuser,
        "SELECT c.relname::text FROM pg_class c
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)",
    )
    .await;
    assert!(without.is_empty(), "{without:?} have no primary key");
}

#[tokio::test]
async fn nothing_refers_to_another_tenants_row() {
    let world = World::new().await;
    // The nth column of one side belongs to the nth of the other; both name their tenant at the same place.
    let strange = found(
        &mut world.superuser().await,
        "SELECT format('%s: %s', k.conrelid::regclass, pg_get_constraintdef(k.oid)) FROM pg_constraint k
         JOIN pg_attribute own ON own.attrelid = k.conrelid AND own.attname = 'tenant_id'
         JOIN pg_attribute far ON far.attrelid = k.confrelid AND far.attname = 'tenant_id'
         WHERE k.contype = 'f' AND k.connamespace = 'public'::regnamespace AND k.conparentid = 0
           AND array_position(k.conkey, own.attnum) IS DISTINCT FROM array_position(k.confkey, far.attnum)",
    )
    .await;
    // A record's owner is its tenant; that of the operator has none.
    assert_eq!(
        strange,
        ["audit_heads: FOREIGN KEY (owner_id) REFERENCES tenants(tenant_id) ON DELETE CASCADE"]
    );
    let same = found(
        &mut world.superuser().await,
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'audit_heads'::regclass AND contype = 'c'
           AND pg_get_constraintdef(oid) LIKE '%owner_id = tenant_id%'
         UNION ALL
         SELECT attgenerated::text FROM pg_attribute
         WHERE attrelid = 'audit_heads'::regclass AND attname = 'owner_id' AND attgenerated = 's'",
    )
    .await;
    assert_eq!(same.len(), 1, "the owner is the tenant");
}

#[tokio::test]
async fn functions_that_run_as_another_are_few_and_known() {
    let world = World::new().await;
    let mut superuser = world.superuser().await;
    let definers = found(
        &mut superuser,
        "SELECT CASE WHEN proowner = 'answerable_app'::regrole THEN proname::text
             ELSE format('%s as %s', proname, proowner::regrole) END
         FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef",
    )
    .await;
    assert_eq!(definers.into_iter().collect::<BTreeSet<_>>(), named(&RUN_AS_ANOTHER));
    let loose = found(
        &mut superuser,
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef
           AND NOT coalesce(proconfig @> ARRAY['search_path=public, pg_temp'], false)",
    )
    .await;
    assert!(loose.is_empty(), "{loose:?} look their names up where their caller wants");
    let open = found(
        &mut superuser,
        "SELECT p.proname::text FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef AND a.grantee = 0",
    )
    .await;
    assert!(open.is_empty(), "anybody may call {open:?}");
}

#[tokio::test]
async fn views_see_what_who_asks_may_see() {
    let world = World::new().await;
    let views = found(
        &mut world.superuser().await,
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
           AND (relkind = 'm' OR relkind = 'v' AND NOT coalesce(reloptions @> ARRAY['security_invoker=true'], false))",
    )
    .await;
    assert!(views.is_empty(), "{views:?} show what their owner sees");
}

#[tokio::test]
async fn the_roles_are_below_row_security_and_own_nothing() {
    let world = World::new().await;
    let mut superuser = world.superuser().await;
    let above = found(
        &mut superuser,
        "SELECT rolname::text FROM pg_roles WHERE rolname IN ('answerable_app', 'answerable_system')
           AND (rolsuper OR rolbypassrls OR rolcanlogin OR rolinherit OR rolcreaterole OR rolcreatedb OR rolreplication)",
    )
    .await;
    assert!(above.is_empty(), "{above:?} may more than they need");
    let members = found(
        &mut superuser,
        "SELECT format('%s in %s', member::regrole, roleid::regrole) FROM pg_auth_members
         WHERE member IN ('answerable_app'::regrole, 'answerable_system'::regrole)",
    )
    .await;
    assert!(members.is_empty(), "{members:?}: they could step further");
    let owned = found(
        &mut superuser,
        "SELECT relname::text FROM pg_class
         WHERE relowner IN ('answerable_app'::regrole, 'answerable_system'::regrole)",
    )
    .await;
    assert!(owned.is_empty(), "who owns {owned:?} could take its walls down");
    let create = found(
        &mut superuser,
        "SELECT r FROM unnest(ARRAY['answerable_app', 'answerable_system', 'public']) AS r
         WHERE has_schema_privilege(r, 'public', 'CREATE')",
    )
    .await;
    assert!(create.is_empty(), "{create:?} may put things where names are looked up");
}

/// Text of every source file of the store.
fn sources(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else if !path.ends_with("security_tests.rs") {
            texts.push(std::fs::read_to_string(&path).expect("a text"));
        }
    }
    texts
}

#[test]
fn the_store_steps_down_to_these_two_roles_alone() {
    let mut steps = BTreeSet::new();
    for text in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let mut roles = words.windows(2).filter(|pair| pair[0] == "ROLE").map(|pair| pair[1].to_owned());
        steps.extend(roles.by_ref());
        assert!(!text.contains("RESET ROLE") && !text.contains("row_security"), "{text}");
    }
    let known = ["answerable_app", "answerable_system"].map(str::to_owned);
    assert_eq!(steps, BTreeSet::from(known));
}
