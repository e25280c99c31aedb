//! The API's own document, which rules what requests may be: the names in a query, the shape of a body.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use answerable_core::FieldError;
use answerable_core::field_error::pointer_token;
use http::Method;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{Registry, RegistryBuilder, ValidationError, Validator};
use serde_json::{Map, Value, json};

use crate::moment;

/// `openapi.yaml` as it is served.
pub(crate) const TEXT: &str = include_str!("../../../openapi.yaml");
/// Most faults that one answer names.
const MAX_FAULTS: usize = 20;
/// Longest text of one of them, in characters.
const MAX_FAULT: usize = 300;

/// The name under which schemas find the document that they are part of.
const NAME: &str = "urn:answerable:api";

/// The document is part of the binary and is read by tests, so what it lacks is a fault of the build, not of a request.
static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_yaml_ng::from_str(TEXT).expect("openapi.yaml is YAML; a test reads it"));
/// Shared by all validators, for each would else keep a document of its own.
static REGISTRY: LazyLock<Registry<'static>> = LazyLock::new(|| {
    let registry = Registry::new().add(NAME, &*DOCUMENT).and_then(RegistryBuilder::prepare);
    registry.expect("the document refers to itself alone; a test compiles each schema")
});
static OPERATIONS: LazyLock<HashMap<(String, String), Operation>> = LazyLock::new(|| read(&DOCUMENT));

/// What one operation takes.
#[derive(Debug)]
pub(crate) struct Operation {
    query: Vec<QueryRule>,
    body: Option<BodyRule>,
}

#[derive(Debug)]
struct QueryRule {
    /// Ends in `KEY` where any key may stand there.
    name: String,
    /// Longest value, in characters.
    max_length: Option<u64>,
}

impl QueryRule {
    fn is_of(&self, name: &str) -> bool {
        match self.name.strip_suffix("KEY") {
            Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
            None => self.name == name,
        }
    }
}

#[derive(Debug)]
struct BodyRule {
    required: bool,
    /// Where in the document its schema is.
    pointer: String,
    validator: OnceLock<Validator>,
}

/// The operation of that method and path template, if the document has it. Routers mark what takes the rest of a path.
pub(crate) fn operation(method: &Method, template: &str) -> Option<&'static Operation> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    OPERATIONS.get(&(method.as_str().to_owned(), template.replace("{*", "{")))
}

/// Operations whose body is JSON, as `POST /v1/runs`.
#[cfg(test)]
pub(crate) fn with_bodies() -> impl Iterator<Item = String> {
    let operations = OPERATIONS.iter().filter(|(_, operation)| operation.body.is_some());
    operations.map(|((method, path), _)| format!("{method} {path}")).filter(|name| !name.ends_with(" event"))
}

impl Operation {
    /// Whether the query may have this name.
    pub(crate) fn takes_query(&self, name: &str) -> bool {
        self.query.iter().any(|rule| rule.is_of(name))
    }

    /// The most characters that the query's parameter of this name may have, if that is limited.
    pub(crate) fn longest_query(&self, name: &str) -> Option<u64> {
        self.query.iter().find(|rule| rule.is_of(name))?.max_length
    }

    /// Whether the body may be left out.
    pub(crate) fn body_is_optional(&self) -> bool {
        self.body.as_ref().is_some_and(|body| !body.required)
    }

    /// What is wrong with a body, with pointers; empty if nothing is. No value of it is repeated.
    pub(crate) fn faults(&self, body: &Value) -> Vec<FieldError> {
        let Some(rule) = &self.body else { return Vec::new() };
        let validator = rule.validator.get_or_init(|| compile(&rule.pointer));
        validator.iter_errors(body).flat_map(|error| explain(&error)).take(MAX_FAULTS).collect()
    }
}

fn read(document: &Value) -> HashMap<(String, String), Operation> {
    let none = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&none);
    let mut operations = HashMap::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap_or(&none) {
            if method == "parameters" {
                continue;
            }
            let parameters = [&item["parameters"], &operation["parameters"]];
            let query = parameters.into_iter().filter_map(Value::as_array).flatten();
            let query = query.filter_map(|parameter| query_rule(document, resolve(document, parameter)));
            let query = query.chain(proofs(document, operation)).collect();
            let at = format!("/paths/{}/{method}/requestBody", pointer_token(path));
            let body = body_rule(&operation["requestBody"], &at);
            operations.insert((method.to_uppercase(), path.clone()), Operation { query, body });
        }
    }
    operations
}

fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let target = value.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    target.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn query_rule(document: &Value, parameter: &Value) -> Option<QueryRule> {
    let name = parameter["name"].as_str().filter(|_| parameter["in"] == "query")?;
    let max_length = resolve(document, &parameter["schema"])["maxLength"].as_u64();
    Some(QueryRule { name: name.to_owned(), max_length })
}

/// Names under which a query may carry a proof of who asks.
fn proofs(document: &Value, operation: &Value) -> Vec<QueryRule> {
    let schemes = operation["security"].as_array().into_iter().flatten().filter_map(Value::as_object);
    let schemes = schemes.flat_map(Map::keys).map(|name| &document["components"]["securitySchemes"][name]);
    schemes.filter_map(|scheme| query_rule(document, scheme)).collect()
}

fn body_rule(body: &Value, at: &str) -> Option<BodyRule> {
    const SCHEMA: &str = "/content/application~1json/schema";
    body.pointer(SCHEMA)?;
    let required = body["required"] == true;
    Some(BodyRule { required, pointer: format!("{at}{SCHEMA}"), validator: OnceLock::new() })
}

fn compile(pointer: &str) -> Validator {
    // Braces of a path's template may not stand in a URI.
    let fragment = pointer.replace('{', "%7B").replace('}', "%7D");
    jsonschema::options()
        .offline()
        .with_registry(&REGISTRY)
        .should_validate_formats(true)
        .with_format("date-time", |text: &str| moment::read(text).is_some())
        .build(&json!({"$ref": format!("{NAME}#{fragment}")}))
        .expect("the document's schemas compile; a test compiles each")
}

/// An error as fields: a name that is unknown or missing is pointed at itself, not at what should hold it.
fn explain(error: &ValidationError<'_>) -> Vec<FieldError> {
    let at = error.instance_path().to_string();
    let child =
        |name: &str, words: &str| FieldError::new(cut(&format!("{at}/{}", pointer_token(name))), words);
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().map(|name| child(name, "this field is not known")).collect()
        }
        ValidationErrorKind::Required { property } => {
            vec![child(property.as_str().unwrap_or_default(), "this field is needed")]
        }
        ValidationErrorKind::FalseSchema => {
            vec![FieldError::new(cut(&at), "this field does not go with the others")]
        }
        // Of alternatives the one that fits best says more than "none fits".
        ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context } => {
            nearest(context).map_or_else(|| vec![plain(error, &at)], explain)
        }
        _ => vec![plain(error, &at)],
    }
}

/// The first error of the alternative that went deepest into the value, if any got further than its top.
fn nearest<'e>(context: &'e [Vec<ValidationError<'static>>]) -> Option<&'e ValidationError<'static>> {
    let depth = |error: &ValidationError<'_>| error.instance_path().to_string().matches('/').count();
    let firsts = context.iter().filter_map(|errors| errors.first());
    let least = context.iter().filter_map(|errors| errors.first()).map(depth).min()?;
    firsts.filter(|error| depth(error) > least).max_by_key(|error| depth(error))
}

fn plain(error: &ValidationError<'_>, at: &str) -> FieldError {
    FieldError::new(cut(at), cut(&error.masked().to_string()))
}

fn cut(text: &str) -> String {
    answerable_core::text::head(text, MAX_FAULT).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(method: Method, path: &str, body: Value) -> Vec<String> {
        let operation = operation(&method, path).expect("an operation");
        operation.faults(&body).into_iter().map(|fault| fault.pointer).collect()
    }

    #[test]
    fn every_schema_compiles() {
        for operation in OPERATIONS.values() {
            operation.faults(&json!({}));
        }
    }

    #[test]
    fn faults_are_at_their_field() {
        let runs = |body| faults(Method::POST, "/v1/runs", body);
        let agent = json!({"name": "a", "instructions": "x", "model": {"provider": "p", "model": "m"}});
        assert_eq!(runs(json!({"agent": agent, "input": "go", "colour": 1})), ["/colour"]);
        assert_eq!(runs(json!({"agent": agent})), ["/input"]);
        assert_eq!(runs(json!({"agent": agent, "input": 5})), ["/input"]);
        assert_eq!(runs(json!({"agent": agent, "input": "go", "deadline": "tomorrow"})), ["/deadline"]);
        assert_eq!(
            runs(json!({"agent": agent, "input": "go", "budgets": {"max_steps": -1}})),
            ["/budgets/max_steps"]
        );
        assert_eq!(
            runs(json!({"agent": agent, "input": [{"role": "wizard", "content": "hi"}]})),
            ["/input/0/role"]
        );
        assert_eq!(runs(json!({"input": "go"})).len(), 1);
        assert_eq!(faults(Method::POST, "/v1/tenants", json!({"name": "a", "color": "red"})), ["/color"]);
        let provider = json!({"kind": "openai_chat", "script": [{"final": "x"}]});
        let mut pointers = faults(Method::PUT, "/v1/providers/{name}", provider);
        pointers.sort();
        assert_eq!(pointers, ["/base_url", "/script"]);
    }

    #[test]
    fn no_value_is_repeated() {
        let operation = operation(&Method::PUT, "/v1/secrets/{name}").expect("an operation");
        for body in
            [json!({"value": ["canary"]}), json!({"value": "canary", "note": "canary"}), json!("canary")]
        {
            for fault in operation.faults(&body) {
                assert!(!fault.message.contains("canary") && !fault.pointer.contains("canary"), "{fault:?}");
            }
        }
    }

    #[test]
    fn names_in_a_query() {
        let runs = operation(&Method::GET, "/v1/runs").expect("an operation");
        for known in ["status", "limit", "cursor", "metadata.order"] {
            assert!(runs.takes_query(known), "{known}");
        }
        let link = operation(&Method::POST, "/v1/approvals/{approval_id}/decision").expect("an operation");
        assert!(link.takes_query("token"));
        for unknown in ["token", "metadata.", "metadata", "state", ""] {
            assert!(!runs.takes_query(unknown), "{unknown}");
        }
    }
}
