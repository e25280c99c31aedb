//! Every query of the store, run with another tenant's ids: it shows nothing of that tenant, changes nothing, and answers as
//! if those ids had never been.

mod known;
mod walls;

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::id::TenantId;

use known::{Query, across};
use walls::{As, Walls};

/// The same values with this tenant for theirs.
fn named(query: &Query, all: Vec<Vec<String>>, tenant: TenantId) -> Vec<Vec<String>> {
    let with = |(at, value)| if query.is_tenant(at) { tenant.0.to_string() } else { value };
    all.into_iter().map(|values| values.into_iter().enumerate().map(with).collect()).collect()
}

/// Runs all queries that are to be run, with the owner's values; `tenant` is whom they name as their tenant.
async fn try_all(
    walls: &mut Walls,
    who: As,
    tenant: TenantId,
    which: impl Fn(&Query) -> bool,
) -> BTreeMap<usize, u32> {
    let (mut faults, mut went) = (Vec::new(), BTreeMap::new());
    for (at, query) in walls.queries.clone().iter().enumerate().filter(|(_, query)| which(query)) {
        for values in named(query, query.values(&walls.pool), tenant) {
            let was_ok = walls.try_one(who, query, &values, &mut faults).await;
            *went.entry(at).or_insert(0) += u32::from(was_ok);
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    went
}

#[tokio::test]
async fn queries_that_cross_tenants_are_few_and_known() {
    let mut walls = Walls::new().await;
    let stranger = As::Stranger(walls.stranger);
    let (mut used, mut unknown) = (BTreeSet::new(), Vec::new());
    for at in 0..walls.queries.len() {
        let query = &walls.queries[at];
        let values = query.values(&walls.pool).remove(0);
        let statement = query.with(&values);
        let (answer, _) = walls.answer(stranger, &statement).await;
        let is_closed = answer.is_err_and(|(_, message)| message.starts_with("permission denied"));
        let query = &walls.queries[at];
        match (is_closed || !query.names_its_tenant(), query.is_across()) {
            (true, Some(prefix)) => drop(used.insert(prefix)),
            (true, None) => unknown.push(query.name.chars().take(160).collect::<String>()),
            (false, Some(prefix)) => panic!("{prefix} names its tenant by now"),
            (false, None) => (),
        }
    }
    assert!(
        unknown.is_empty(),
        "name a tenant, or stand in across.txt with a reason:\n{}",
        unknown.join("\n")
    );
    let all: BTreeSet<&str> = across().into_iter().map(|(prefix, _)| prefix).collect();
    let unused: Vec<_> = all.difference(&used).collect();
    assert!(unused.is_empty(), "across.txt names what isn't there: {unused:#?}");
    assert!(across().iter().all(|(_, why)| !why.is_empty()));
}

#[tokio::test]
async fn no_query_shows_or_changes_another_tenants_rows() {
    let mut walls = Walls::new().await;
    let stranger = As::Stranger(walls.stranger);
    let (owner, own) = (walls.owner, walls.stranger);
    // The engine's write is told its tenant by the engine, and asks nobody else.
    let which = |query: &Query| !query.name.starts_with("SELECT commit_run(");
    for tenant in [owner, own] {
        let went = try_all(&mut walls, stranger, tenant, which).await;
        let ran = went.values().filter(|times| **times > 0).count();
        assert!(ran * 10 > went.len() * 6, "only {ran} of {} ran at all", went.len());
    }
    assert_eq!(walls.world.tenant, own);
}

#[tokio::test]
async fn no_query_relies_on_row_security_alone() {
    let mut walls = Walls::new().await;
    let own = walls.stranger;
    let went = try_all(&mut walls, As::Superuser, own, |query| query.names_its_tenant()).await;
    let ran = went.values().filter(|times| **times > 0).count();
    assert!(ran * 10 > went.len() * 6, "only {ran} of {} ran at all", went.len());
}

/// What is looked for is found where it may be: else the tests above would see nothing wherever it was.
#[tokio::test]
async fn the_owner_finds_what_the_stranger_does_not() {
    let mut walls = Walls::new().await;
    let owner = As::Stranger(walls.owner);
    let (mut found, mut changed) = (0, 0);
    for at in 0..walls.queries.len() {
        if !walls.queries[at].names_its_tenant() {
            continue;
        }
        let mut tells = false;
        let mut changes = false;
        for values in walls.queries[at].values(&walls.pool) {
            let statement = walls.queries[at].with(&values);
            let (answer, after) = walls.answer(owner, &statement).await;
            tells |= answer.is_ok_and(|rows| !rows.is_empty());
            changes |= after.is_some_and(|after| after != walls.untouched);
        }
        found += u32::from(tells);
        changed += u32::from(changes);
    }
    assert!(found > 120 && changed > 50, "{found} queries find and {changed} change something");
}

/// A query that forgot its tenant: the wall behind it is all that is left, and without that it is seen.
#[tokio::test]
async fn a_query_that_forgot_its_tenant_would_be_noticed() {
    let mut walls = Walls::new().await;
    let (own, mut tried, mut noticed) = (walls.stranger, 0, 0);
    for mut query in walls.queries.clone() {
        let all = named(&query, query.values(&walls.pool), own);
        query.sql = query.sql.replace("tenant_id = $1", "$1::uuid IS NOT NULL");
        if query.sql == walls.sql_of(&query.name) {
            continue;
        }
        let mut faults = Vec::new();
        for values in &all {
            walls.try_one(As::Superuser, &query, values, &mut faults).await;
        }
        tried += 1;
        noticed += u32::from(!faults.is_empty());
    }
    // The others find nothing all the same: what they are about is in another state, or would stand twice.
    assert!(tried > 150 && noticed * 10 > tried * 4, "only {noticed} of {tried} were noticed");
}
