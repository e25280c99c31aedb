//! The queries, as the build describes them, and those that cross tenants.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use sqlx::PgConnection;

use crate::tenancy::arguments::{Pool, Row};
use crate::tenancy::sql::{Functions, Slot, slots, words};

/// Queries that name no tenant, or that a tenant's role may not run, and why. Checked to be no longer than it must.
const ACROSS: &str = include_str!("../across.txt");

/// A query as the build knows it.
#[derive(Clone)]
pub(super) struct Query {
    pub(super) sql: String,
    /// Its text on one line.
    pub(super) name: String,
    kinds: Vec<String>,
    slots: Vec<Option<Slot>>,
}

impl Query {
    pub(super) fn names_its_tenant(&self) -> bool {
        (0..self.slots.len()).any(|at| self.is_tenant(at))
    }

    pub(super) fn is_tenant(&self, at: usize) -> bool {
        let is_it =
            |slot: &Slot| ["tenant_id", "p_tenant"].contains(&slot.name.as_str()) && slot.operator == "=";
        self.slots[at].as_ref().is_some_and(is_it) && self.kinds[at] == "Uuid"
    }

    pub(super) fn is_across(&self) -> Option<&'static str> {
        across().into_iter().find(|(prefix, _)| self.name.starts_with(prefix)).map(|(prefix, _)| prefix)
    }

    /// The statement with these values in it.
    pub(super) fn with(&self, values: &[String]) -> String {
        let mut sql = self.sql.clone();
        for (at, value) in values.iter().enumerate().rev() {
            let literal = format!("'{}'::{}", value.replace('\'', "''"), type_of(&self.kinds[at]));
            sql = sql.replace(&format!("${}", at + 1), &literal);
        }
        sql
    }

    /// Values that are the pool's owner's, for the rows that the statement may be about.
    pub(super) fn values(&self, pool: &Pool) -> Vec<Vec<String>> {
        let of = |row: &Row| {
            let slots = self.slots.iter().zip(&self.kinds);
            slots.map(|(slot, kind)| pool.value(row, slot.as_ref(), kind)).collect::<Vec<_>>()
        };
        let all: BTreeSet<Vec<String>> = pool.rows_for(&words(&self.sql)).iter().map(of).collect();
        all.into_iter().collect()
    }
}

fn type_of(kind: &str) -> String {
    if let Some(element) = kind.strip_suffix("Array") {
        return format!("{}[]", type_of(element));
    }
    kind.to_lowercase()
}

/// Beginnings of queries' texts, each with its reason: the line above that begins with `#`.
pub(super) fn across() -> Vec<(&'static str, &'static str)> {
    let (mut why, mut all) = ("", Vec::new());
    for line in ACROSS.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(reason) => why = reason,
            None => all.push((line, why)),
        }
    }
    all
}

pub(super) async fn queries(superuser: &mut PgConnection) -> Vec<Query> {
    let functions: Vec<(String, Vec<String>)> = sqlx::query_as(
        "SELECT proname::text, proargnames FROM pg_proc
         WHERE pronamespace = 'public'::regnamespace AND proargnames IS NOT NULL",
    )
    .fetch_all(superuser)
    .await
    .expect("functions");
    let functions: Functions = functions.into_iter().collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.sqlx");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the query data") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("a text");
        let data: Value = serde_json::from_str(&text).expect("JSON");
        let sql = data["query"].as_str().expect("a query").to_owned();
        let kinds = data["describe"]["parameters"]["Left"].as_array().cloned().unwrap_or_default();
        let kinds: Vec<String> = kinds.iter().map(|kind| kind.as_str().expect("a type").to_owned()).collect();
        let slots = slots(&sql, kinds.len(), &functions);
        let name = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        all.push(Query { sql, name, kinds, slots });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
