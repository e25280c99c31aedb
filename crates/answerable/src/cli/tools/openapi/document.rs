//! A document, and what its references point at.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::Unmapped;

/// References that are followed, one after another.
const MOST_HOPS: usize = 32;

/// An OpenAPI document.
#[derive(Debug)]
pub(super) struct Document<'d> {
    root: &'d Value,
    /// Schemas are those of OpenAPI 3.0, a dialect of its own; later ones are JSON Schema.
    pub(super) has_old_schemas: bool,
}

impl<'d> Document<'d> {
    /// A document of a version that is understood.
    pub(super) fn new(root: &'d Value) -> Result<Self, String> {
        let version = root.get("openapi").and_then(Value::as_str);
        if let Some(version) = version.filter(|version| version.starts_with("3.")) {
            return Ok(Self { root, has_old_schemas: version.starts_with("3.0") });
        }
        let found = version.or_else(|| root.get("swagger").and_then(Value::as_str));
        let found =
            found.map_or_else(|| "no version of it".to_owned(), |version| format!("version {version}"));
        Err(format!("an OpenAPI document of version 3.0 or 3.1 is needed, and this one has {found}"))
    }

    pub(super) fn title(&self) -> String {
        let text = |name: &str| self.root.pointer(name).and_then(Value::as_str).unwrap_or_default().trim();
        let title = format!("{} {}", text("/info/title"), text("/info/version"));
        if title.trim().is_empty() { "the document".into() } else { title.trim().to_owned() }
    }

    pub(super) fn paths(&self) -> Result<&'d Map<String, Value>, String> {
        let paths = self.root.get("paths").and_then(Value::as_object);
        paths.ok_or_else(|| "the document has no paths".to_owned())
    }

    pub(super) fn root(&self) -> &'d Value {
        self.root
    }

    /// What a value is, references followed.
    pub(super) fn resolve(&self, value: &'d Value) -> Result<&'d Value, Unmapped> {
        let mut value = value;
        for _ in 0..MOST_HOPS {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.find(reference)?,
                None => return Ok(value),
            }
        }
        Err(Unmapped("its references go in a circle".into()))
    }

    /// What a reference points at.
    pub(super) fn find(&self, reference: &str) -> Result<&'d Value, Unmapped> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(Unmapped(format!("it refers to {reference}, and other documents are not read")));
        };
        let pointer = percent_decode_str(pointer).decode_utf8_lossy();
        let found = self.root.pointer(&pointer);
        found.ok_or_else(|| Unmapped(format!("it refers to {reference}, which isn't there")))
    }
}
