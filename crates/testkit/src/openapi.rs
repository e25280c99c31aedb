//! The judge: does a request or an answer agree with `openapi.yaml`?

mod judge;
mod route;
mod schemas;

use std::sync::OnceLock;

use serde_json::Value;

pub use judge::Verdict;
use route::Template;
use schemas::Schemas;

const TEXT: &str = include_str!("../../../openapi.yaml");
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

/// The API document with its schemas ready to judge. Schemas are built once, when they are first needed.
#[derive(Debug)]
pub struct Document {
    root: Value,
    operations: Vec<Operation>,
    schemas: Schemas,
}

#[derive(Debug)]
pub(crate) struct Operation {
    method: String,
    template: Template,
    /// JSON Pointer of the operation in the document.
    pointer: String,
}

impl Document {
    /// The project's `openapi.yaml`, as it was when this crate was built.
    ///
    /// # Panics
    /// When the document is no YAML or has no paths: nothing could be judged then.
    #[must_use]
    pub fn load() -> &'static Self {
        static DOCUMENT: OnceLock<Document> = OnceLock::new();
        DOCUMENT.get_or_init(|| match Self::parse(TEXT) {
            Ok(document) => document,
            Err(fault) => panic!("openapi.yaml: {fault}"),
        })
    }

    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let root: Value = serde_yaml_ng::from_str(text).map_err(|fault| fault.to_string())?;
        let paths = root["paths"].as_object().ok_or("it has no paths")?;
        let mut operations = Vec::new();
        for (path, item) in paths {
            for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
                operations.push(Operation {
                    method: method.to_uppercase(),
                    template: Template::new(path),
                    pointer: format!("/paths/{}/{method}", escaped(path)),
                });
            }
        }
        let schemas = Schemas::new(&root);
        Ok(Self { root, operations, schemas })
    }

    /// The document as a value, for tests that look at it directly.
    #[must_use]
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// Every operation: the method in capitals and the path's template (`/v1/runs/{run_id}`).
    #[must_use]
    pub fn operations(&self) -> Vec<(String, String)> {
        let pair = |op: &Operation| (op.method.clone(), op.template.text().to_owned());
        self.operations.iter().map(pair).collect()
    }

    /// The operation's own part of the document.
    #[must_use]
    pub fn operation(&self, method: &str, path_template: &str) -> Option<&Value> {
        let is_it = |op: &&Operation| op.method == method && op.template.text() == path_template;
        self.operations.iter().find(is_it).and_then(|op| self.root.pointer(&op.pointer))
    }

    /// The operation that answers this request; of two templates that fit, the one with more literal segments.
    fn matching(&self, method: &str, path: &str) -> Option<&Operation> {
        let fitting = self.operations.iter().filter(|op| op.method == method && op.template.matches(path));
        fitting.max_by_key(|op| op.template.literals())
    }

    fn knows_path(&self, path: &str) -> bool {
        self.operations.iter().any(|op| op.template.matches(path))
    }

    /// What a pointer leads to, references followed, and the pointer of that.
    fn resolved(&self, pointer: &str) -> Option<(String, &Value)> {
        let mut pointer = pointer.to_owned();
        for _ in 0..16 {
            let found = self.root.pointer(&pointer)?;
            match found.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#')) {
                Some(target) => target.clone_into(&mut pointer),
                None => return Some((pointer, found)),
            }
        }
        None
    }
}

/// A name as one segment of a JSON Pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
