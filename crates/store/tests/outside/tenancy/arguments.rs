//! Values for a statement's parameters: a tenant's own, or ones like them that never were.

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::id::TenantId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::{tables_of_tenants, texts};
use super::sql::Slot;

/// A row of a tenant: what its columns hold, as text.
pub(super) type Row = BTreeMap<String, String>;

/// All of a tenant's rows that are looked at.
pub(super) struct Pool {
    tenant: TenantId,
    rows: BTreeMap<String, Vec<Row>>,
    ids: BTreeSet<String>,
}

/// Rows of a table that are tried.
const TRIED: usize = 3;

impl Pool {
    pub(super) async fn of(superuser: &mut PgConnection, tenant: TenantId) -> Self {
        let mut rows = BTreeMap::new();
        for table in tables_of_tenants(superuser).await {
            let select = format!("SELECT * FROM {table} WHERE tenant_id = '{}'", tenant.0);
            let found = texts(superuser, &select).await.expect("rows");
            let known = |row: Vec<(String, Option<String>)>| {
                row.into_iter().filter_map(|(name, value)| Some((name, value?))).collect::<Row>()
            };
            rows.insert(table, found.into_iter().map(known).collect());
        }
        let ids = super::rows::ids(superuser, tenant).await;
        Self { tenant, rows, ids }
    }

    /// Rows of the tables that a statement names; one without any where it names none.
    pub(super) fn rows_for(&self, words: &[String]) -> Vec<Row> {
        let named = self.rows.iter().filter(|(table, _)| words.contains(table));
        let rows: Vec<Row> = named.flat_map(|(_, rows)| rows.iter().take(TRIED).cloned()).collect();
        if rows.is_empty() { vec![Row::new()] } else { rows }
    }

    /// What the tenant has in columns of this name, in whatever table, that can be of this type.
    fn column(&self, name: &str, kind: &str) -> Vec<&String> {
        let names = names(name);
        let of_row = |row| names.iter().find_map(|name| fitting(row, name, kind));
        self.rows.values().flatten().filter_map(of_row).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// A value for a parameter of this type, as SQL writes it between quotes.
    pub(super) fn value(&self, row: &Row, slot: Option<&Slot>, kind: &str) -> String {
        let name = slot.map_or("", |slot| slot.name.as_str());
        if names(name).iter().any(|name| name == "tenant_id") && kind == "Uuid" {
            return self.tenant.0.to_string();
        }
        if let Some(element) = kind.strip_suffix("Array") {
            return self.list(row, name, element);
        }
        let in_row = names(name).into_iter().find_map(|name| fitting(row, &name, kind));
        let own = in_row.or_else(|| self.column(name, kind).first().copied());
        let less = slot.is_some_and(|slot| slot.operator.starts_with('<'));
        match (kind, own) {
            ("Uuid", Some(own)) => own.clone(),
            ("Uuid", _) => self.ids.first().cloned().unwrap_or_default(),
            // What is compared shuts nothing out.
            ("Int2", _) => "32767".into(),
            ("Int4" | "Int8", _) if less => "2147483647".into(),
            ("Int4" | "Int8", _) if slot.is_some_and(|slot| slot.operator.starts_with('>')) => "0".into(),
            ("Int4" | "Int8", _) if name == "LIMIT" => "200".into(),
            ("Int4" | "Int8", Some(own)) if own.parse::<i32>().is_ok() => own.clone(),
            ("Int4" | "Int8", _) => "1".into(),
            ("Timestamptz", _) => if less { "infinity" } else { "2020-01-01T00:00:00Z" }.into(),
            ("Bool", _) => "true".into(),
            ("Float8", _) => "1".into(),
            ("Interval", _) => "1 minute".into(),
            ("Json" | "Jsonb", Some(own)) if own.starts_with(['{', '[']) => own.clone(),
            ("Json" | "Jsonb", _) => "{}".into(),
            ("Bytea", Some(own)) if own.starts_with("\\x") => own.clone(),
            ("Bytea", _) => "\\x00".into(),
            (_, Some(own)) => own.clone(),
            (_, None) => "none".into(),
        }
    }

    /// All that the tenant has of it; of ids whose kind can't be told, all of any kind.
    fn list(&self, row: &Row, name: &str, element: &str) -> String {
        let mut values: Vec<String> = match element {
            "Uuid" if self.column(name, element).is_empty() => self.ids.iter().cloned().collect(),
            "Uuid" | "Text" | "Bytea" => self.column(name, element).into_iter().cloned().collect(),
            "Bool" => vec!["true".into()],
            _ => vec!["1".into()],
        };
        if let Some(first) = names(name).into_iter().find_map(|name| fitting(row, &name, element)) {
            values.insert(0, first.clone());
        }
        let quoted = |value: &String| format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
        format!("{{{}}}", values.iter().take(20).map(quoted).collect::<Vec<_>>().join(","))
    }
}

/// What a row holds under this name, if it can be of this type.
fn fitting<'r>(row: &'r Row, name: &str, kind: &str) -> Option<&'r String> {
    row.get(name).filter(|value| kind != "Uuid" || Uuid::parse_str(value).is_ok_and(|id| !id.is_nil()))
}

/// How the columns may be called that a name stands for: arguments of functions have shorter ones.
fn names(name: &str) -> Vec<String> {
    let bare = name.strip_prefix("p_").unwrap_or(name);
    vec![name.to_owned(), bare.to_owned(), format!("{bare}_id"), format!("{bare}_name")]
}

/// The same ids and words, as they would be of somebody who never was.
pub(super) struct Mirror(BTreeMap<String, String>);

impl Mirror {
    pub(super) fn new(ids: &BTreeSet<String>, words: &[(&str, &str)]) -> Self {
        let mut pairs: BTreeMap<String, String> = ids.iter().map(|id| (id.clone(), beside(id))).collect();
        for (word, other) in words {
            pairs.insert((*word).to_owned(), (*other).to_owned());
        }
        Self(pairs)
    }

    pub(super) fn away(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (own, other)| text.replace(own, other))
    }

    pub(super) fn back(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (own, other)| text.replace(other, own))
    }
}

/// An id that never was and stands where this one does among others: ids are ordered by the time that they begin with.
fn beside(id: &str) -> String {
    let drawn = Uuid::now_v7().simple().to_string();
    format!("{}{}", &id[..id.len() - 8], &drawn[drawn.len() - 8..])
}
