//! Two tenants with rows everywhere, and what a query tells the second of the first.

use std::collections::BTreeSet;
use std::sync::Arc;

use answerable_core::id::TenantId;
use answerable_store::Workspaces;
use sqlx::PgConnection;

use super::known::{Query, queries};
use crate::files::shelf::Shelf;
use crate::tenancy::arguments::{Mirror, Pool};
use crate::tenancy::full::two;
use crate::tenancy::rows::{digest, ids, tables_of_tenants, texts};
use crate::world::World;

/// Stands in all that the owner wrote.
const WORD: &str = "owners-word";
/// As long, and nowhere.
const NEVER: &str = "nobodys-say";

/// As whom a query is run.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum As {
    /// As the stranger, behind all walls.
    Stranger(TenantId),
    /// As somebody whom no row-level security stops.
    Superuser,
}

pub(super) type Rows = Vec<Vec<(String, Option<String>)>>;

/// Two tenants with rows everywhere, and what is known of the first.
pub(super) struct Walls {
    pub(super) world: World,
    superuser: PgConnection,
    pub(super) queries: Vec<Query>,
    pub(super) owner: TenantId,
    pub(super) stranger: TenantId,
    pub(super) pool: Pool,
    /// The owner's alone.
    marks: BTreeSet<String>,
    mirror: Mirror,
    digest: String,
    pub(super) untouched: Rows,
}

impl Walls {
    pub(super) async fn new() -> Self {
        let mut world = World::new().await;
        let files = Workspaces::new(world.store.clone(), Arc::new(Shelf::default()));
        let (owner, stranger) = two(&mut world, &files, [WORD, "strangers-own"]).await;
        let mut superuser = world.superuser().await;
        let queries = queries(&mut superuser).await;
        let pool = Pool::of(&mut superuser, owner).await;
        let theirs = ids(&mut superuser, stranger).await;
        let mut marks = ids(&mut superuser, owner).await;
        marks.retain(|id| !theirs.contains(id));
        let mirror = Mirror::new(&marks, &[(WORD, NEVER), (&hex(WORD), &hex(NEVER))]);
        marks.insert(WORD.into());
        let digest = digest(&tables_of_tenants(&mut superuser).await, owner);
        let untouched = texts(&mut superuser, &digest).await.expect("a digest");
        Self { world, superuser, queries, owner, stranger, pool, marks, mirror, digest, untouched }
    }

    /// The text of the query of that name, as it is.
    pub(super) fn sql_of(&self, name: &str) -> &str {
        self.queries.iter().find(|query| query.name == name).map_or("", |query| &query.sql)
    }

    /// What a statement answers, and the owner's rows after it. Nothing of it stays.
    pub(super) async fn answer(
        &mut self,
        who: As,
        statement: &str,
    ) -> (Result<Rows, (String, String)>, Option<Rows>) {
        let role = match who {
            As::Stranger(tenant) => format!(
                "SET LOCAL ROLE answerable_app; SELECT set_config('app.tenant', '{}', true);",
                tenant.0
            ),
            As::Superuser => String::new(),
        };
        let limits = "SET LOCAL statement_timeout = '20s'; SET LOCAL lock_timeout = '5s';";
        texts(&mut self.superuser, &format!("BEGIN; {limits} {role}")).await.expect("begun");
        let answer = texts(&mut self.superuser, statement).await.map_err(|error| {
            let error = error.into_database_error().expect("an answer");
            (error.code().unwrap_or_default().into_owned(), error.message().to_owned())
        });
        let mut after = None;
        if answer.is_ok() {
            texts(&mut self.superuser, "RESET ROLE").await.expect("reset");
            after = Some(texts(&mut self.superuser, &self.digest.clone()).await.expect("a digest"));
        }
        texts(&mut self.superuser, "ROLLBACK").await.expect("rolled back");
        (answer, after)
    }

    /// Runs one query with these values, and the same as if their owner had never been.
    pub(super) async fn try_one(
        &mut self,
        who: As,
        query: &Query,
        values: &[String],
        faults: &mut Vec<String>,
    ) -> bool {
        let (statement, name) = (query.with(values), &query.name);
        let (answer, after) = self.answer(who, &statement).await;
        if after.is_some_and(|after| after != self.untouched) {
            faults.push(format!("changes the owner's rows: {name} with {values:?}"));
        }
        if let Ok(rows) = &answer {
            for (column, text) in rows.iter().flatten() {
                let text = text.as_deref().unwrap_or_default();
                // What one sends oneself may come back.
                let told =
                    |mark: &&String| text.contains(*mark) && !values.iter().any(|sent| sent.contains(*mark));
                if let Some(mark) = self.marks.iter().find(told) {
                    faults.push(format!("{column} tells {mark}: {name} with {values:?}"));
                }
            }
        }
        let away: Vec<String> = values.iter().map(|value| self.mirror.away(value)).collect();
        if away == values || draws_its_ids(name) {
            return answer.is_ok();
        }
        let (never, _) = self.answer(who, &query.with(&away)).await;
        let (now, then) =
            (compared(&answer, |text| text.to_owned()), compared(&never, |text| self.mirror.back(text)));
        if now != then {
            faults.push(format!(
                "answers otherwise than for what never was: {name} with {values:?}: {now:?} {then:?}"
            ));
        }
        answer.is_ok()
    }
}

/// Writes rows under ids that the server draws, and that are unique over all tenants: who knew one could run into it, but
/// nobody chooses any. `laws.rs` names the tables.
fn draws_its_ids(query: &str) -> bool {
    query.starts_with("INSERT INTO api_keys ")
}

fn hex(word: &str) -> String {
    word.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// What must be alike in two answers: how many rows, and their texts, without what every answer draws or counts anew.
fn compared(answer: &Result<Rows, (String, String)>, of: impl Fn(&str) -> String) -> Vec<String> {
    let counted = ["ord", "at", "now", "left", "object", "seq", "hash"];
    let is_fixed = |name: &str| {
        let name = name.trim_end_matches(['!', '?']);
        !name.ends_with("_at") && !counted.contains(&name)
    };
    match answer {
        Err((code, _)) => vec![format!("refused with {code}")],
        Ok(rows) => rows
            .iter()
            .map(|row| {
                let fixed = row.iter().filter(|(name, _)| is_fixed(name));
                fixed.map(|(_, text)| of(text.as_deref().unwrap_or("null"))).collect::<Vec<_>>().join("|")
            })
            .collect(),
    }
}
