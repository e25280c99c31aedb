//! One operation, and the tool that it becomes.

use serde_json::{Map, Value, json};

use super::body::{self, Body};
use super::document::Document;
use super::names::{Names, legal};
use super::parameters::{self, Parameters, described};
use super::schema::Schemas;
use super::security::{self, Proofs};
use super::{Unmapped, Wanted, servers};

/// Longest description in characters; a document's may be whole chapters.
const LONGEST_DESCRIPTION: usize = 2_000;

/// An operation in its document.
pub(super) struct Place<'d> {
    pub(super) document: &'d Document<'d>,
    pub(super) path: &'d str,
    /// The item of that path.
    pub(super) item: &'d Value,
    /// In lower case.
    pub(super) method: &'d str,
}

/// A tool, and what there is to say of it.
pub(super) struct Made {
    pub(super) tool: Value,
    pub(super) notes: Vec<String>,
    pub(super) secrets: Vec<String>,
    /// Where it sends them.
    pub(super) origin: String,
}

/// What a tool's input is made of.
struct Input {
    schema: Value,
    /// Template of the body, where that isn't the input itself.
    body: Option<String>,
}

impl<'d> Place<'d> {
    pub(super) fn operation(&self) -> &'d Value {
        &self.item[self.method]
    }

    /// What it is called, as far as the document says.
    pub(super) fn name(&self) -> String {
        let id = self.operation().get("operationId").and_then(Value::as_str);
        id.map_or_else(|| legal(&format!("{} {}", self.method, self.path)), legal)
    }

    pub(super) fn tool(&self, name: &str, wanted: &Wanted) -> Result<Made, Unmapped> {
        let mut notes = Vec::new();
        let proofs = security::proofs(self)?;
        let body = body::read(self, &mut notes)?;
        let (mut schemas, mut fields) = (Schemas::new(self.document), Names::default());
        let parameters = parameters::read(self, &mut schemas, &mut fields)?;
        let media_type = body.as_ref().and_then(|body| body.media_type.clone());
        let input = self.input(&parameters, body, schemas, &mut fields, &mut notes)?;
        let base = servers::base(self, wanted)?;
        let url = self.url(&base.address, &parameters)?;
        notes.extend(parameters.notes.iter().chain(&proofs.notes).cloned());
        let http = self.target(url, &parameters, &proofs, media_type, input.body);
        let (risk, side_effect, repeatable) = nature(self.method);
        let tool = json!({
            "name": name,
            "description": self.description(),
            "kind": "http",
            "http": http,
            "input_schema": input.schema,
            "risk": risk,
            "side_effect": side_effect,
            "idempotent": repeatable || (side_effect == "write" && parameters.takes_key),
        });
        Ok(Made { tool, notes, secrets: proofs.secrets, origin: base.origin })
    }

    fn description(&self) -> String {
        let text = |field: &str| {
            self.operation().get(field).and_then(Value::as_str).map(str::trim).unwrap_or_default()
        };
        let (summary, description) = (text("summary"), text("description"));
        let whole = match (summary, description) {
            ("", "") => format!("{} {}", self.method.to_uppercase(), self.path),
            (summary, "") => summary.to_owned(),
            ("", description) => description.to_owned(),
            (summary, description) if description.starts_with(summary) => description.to_owned(),
            (summary, description) => format!("{summary}\n\n{description}"),
        };
        let old = self.operation().get("deprecated") == Some(&Value::Bool(true));
        let whole = if old { format!("{whole}\n\n(deprecated)") } else { whole };
        whole.chars().take(LONGEST_DESCRIPTION).collect()
    }

    /// The path with a place for each of its parts.
    fn url(&self, base: &str, parameters: &Parameters) -> Result<String, Unmapped> {
        let (mut url, mut rest) = (base.to_owned(), self.path);
        while let Some((before, after)) = rest.split_once('{') {
            let (part, after) =
                after.split_once('}').ok_or_else(|| Unmapped("its path has a { without }".into()))?;
            let field = parameters.path.get(part);
            let field = field.ok_or_else(|| Unmapped(format!("the path's {{{part}}} is no parameter")))?;
            url.push_str(before);
            url.push_str(&format!("{{{{input.{field}}}}}"));
            rest = after;
        }
        url.push_str(rest);
        Ok(url)
    }

    /// An operation without parameters takes its body as the input; others have it in a field.
    fn input(
        &self,
        parameters: &Parameters,
        body: Option<Body<'d>>,
        mut schemas: Schemas<'d>,
        fields: &mut Names,
        notes: &mut Vec<String>,
    ) -> Result<Input, Unmapped> {
        let (mut properties, mut required) = (parameters.properties.clone(), parameters.required.clone());
        let mut sent = None;
        let mut plain = None;
        if let Some(body) = body {
            let whole = self.document.resolve(body.schema)?;
            if properties.is_empty() && body.required && is_plain_object(whole) {
                plain = Some(schemas.convert(whole)?);
            } else {
                let field = fields.unique("body");
                properties.insert(field.clone(), described(schemas.convert(body.schema)?, body.whole));
                sent = Some(format!("{{{{input.{field}}}}}"));
                required.extend(body.required.then_some(field));
            }
        } else if !matches!(self.method, "get" | "delete") {
            // Nothing is to be sent, the parameters neither: a field that the input can't have.
            sent = Some(format!("{{{{input.{}}}}}", fields.unique("body")));
        }
        let (defs, told) = schemas.defs()?;
        notes.extend(told);
        let mut schema = match plain {
            Some(plain) => plain,
            None => json!({"type": "object", "properties": properties, "required": required,
                "additionalProperties": false}),
        };
        if !defs.is_empty() {
            schema["$defs"] = Value::Object(defs);
        }
        Ok(Input { schema, body: sent })
    }

    fn target(
        &self,
        url: String,
        parameters: &Parameters,
        proofs: &Proofs,
        media_type: Option<String>,
        body: Option<String>,
    ) -> Value {
        let mut headers = parameters.headers.clone();
        headers.extend(proofs.headers.clone());
        headers.extend(media_type.map(|kind| ("content-type".to_owned(), Value::from(kind))));
        let mut http = Map::new();
        http.insert("url".into(), url.into());
        http.insert("method".into(), self.method.to_uppercase().into());
        if !headers.is_empty() {
            http.insert("headers".into(), headers.into());
        }
        let is_bodiless = matches!(self.method, "get" | "delete");
        if !parameters.query.is_empty() || (is_bodiless && !parameters.properties.is_empty()) {
            http.insert("query".into(), parameters.query.clone().into());
        }
        if let Some(body) = body {
            http.insert("body".into(), body.into());
        }
        Value::Object(http)
    }
}

/// An object whose fields can be an input's.
fn is_plain_object(schema: &Value) -> bool {
    let is_composed = ["allOf", "anyOf", "oneOf", "not", "if"].iter().any(|word| schema.get(*word).is_some());
    let is_nullable = schema.get("nullable") == Some(&Value::Bool(true));
    let is_object = schema.get("type").is_some_and(|kind| kind == "object")
        || (schema.get("type").is_none() && schema.get("properties").is_some());
    is_object && !is_composed && !is_nullable
}

/// Risk, side effect, and whether the same request twice is as good as once.
fn nature(method: &str) -> (&'static str, &'static str, bool) {
    match method {
        "get" => ("low", "none", false),
        "put" => ("medium", "write", true),
        "delete" => ("high", "write", true),
        _ => ("medium", "write", false),
    }
}
