//! OpenAPI 3.0 and 3.1 to tools. Pure: a document in, tools and what there is to say of them out.
//!
//! `document` finds things, `servers` says where an operation is, `security` which secrets it needs, `parameters` and `body`
//! what goes where (`shape`: and what can't), `schema` what an input must be, and `operation` puts a tool together. Each is then judged by the same
//! rules as when an agent is stored: what comes out of here is accepted there.

mod body;
mod document;
mod judge;
mod names;
mod operation;
mod parameters;
mod schema;
mod security;
mod servers;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use answerable_core::permission::glob_matches;
use serde_json::Value;
use url::Url;

use self::document::Document;
use self::names::Names;

/// Methods that a tool can have, as a document writes them.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// And those that it can't.
const OTHERS: [&str; 3] = ["head", "options", "trace"];

/// What is asked for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Where the operations are, whatever the document says.
    pub(super) base_url: Option<String>,
    /// Where the document came from; its servers may be relative to that.
    pub(super) source: Option<Url>,
    /// Globs over names; none: all.
    pub(super) only: Vec<String>,
}

/// What came of a document.
#[derive(Debug, Default)]
pub(super) struct Imported {
    /// The document's title and version.
    pub(super) title: String,
    /// Tools, in the order of their paths.
    pub(super) tools: Vec<Value>,
    /// Operations that are no tool.
    pub(super) left_out: usize,
    /// What there is to say, in lines: why an operation was left out, and what a tool can't do.
    pub(super) told: Vec<String>,
    /// Secrets that the tools' headers name, and where they are sent.
    pub(super) secrets: BTreeMap<String, BTreeSet<String>>,
}

/// Why something can't be said by a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unmapped(String);

/// Turns a document's operations into tools.
///
/// # Errors
/// The document is none of OpenAPI 3.
pub(super) fn import(root: &Value, wanted: &Wanted) -> Result<Imported, String> {
    let document = Document::new(root)?;
    let mut imported = Imported { title: document.title(), ..Imported::default() };
    let mut names = Names::default();
    for (path, item) in document.paths()? {
        let item = match document.resolve(item) {
            Ok(item) => item,
            Err(Unmapped(why)) => {
                imported.leave_out(&format!("all of {path}"), &why);
                continue;
            }
        };
        for method in OTHERS.iter().filter(|method| item[**method].is_object()) {
            imported.leave_out(&label(method, path), "tools have no such method");
        }
        for method in METHODS.iter().filter(|method| item[**method].is_object()) {
            let place = operation::Place { document: &document, path, item, method };
            imported.add(&place, &mut names, wanted);
        }
    }
    Ok(imported)
}

fn label(method: &str, path: &str) -> String {
    format!("{} {path}", method.to_uppercase())
}

impl Imported {
    fn add(&mut self, place: &operation::Place<'_>, names: &mut Names, wanted: &Wanted) {
        let name = names.unique(&place.name());
        if !wanted.only.is_empty() && !wanted.only.iter().any(|glob| glob_matches(glob, &name)) {
            return;
        }
        let label = label(place.method, place.path);
        let made = place.tool(&name, wanted).and_then(|made| judge::accepts(&made.tool).map(|()| made));
        match made {
            Err(Unmapped(why)) => self.leave_out(&label, &why),
            Ok(made) => {
                self.told.extend(made.notes.into_iter().map(|note| format!("{name}: {note}")));
                for secret in made.secrets {
                    self.secrets.entry(secret).or_default().insert(made.origin.clone());
                }
                self.tools.push(made.tool);
            }
        }
    }

    fn leave_out(&mut self, what: &str, why: &str) {
        self.left_out += 1;
        self.told.push(format!("left out {what}: {why}"));
    }
}
