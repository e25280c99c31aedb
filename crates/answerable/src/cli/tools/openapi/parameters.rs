//! Parameters of an operation: fields of the input, and their places in address and headers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Unmapped;
use super::document::Document;
use super::names::Names;
use super::operation::Place;
use super::schema::Schemas;
use super::shape::shape;

/// Parameters as far as they can be said.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    /// Fields of the input.
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<String>,
    /// Fields of the path's parts, by the parts' names.
    pub(super) path: BTreeMap<String, String>,
    pub(super) query: Map<String, Value>,
    pub(super) headers: Map<String, Value>,
    /// The far side takes `Idempotency-Key`, which the runtime sends by itself.
    pub(super) takes_key: bool,
    pub(super) notes: Vec<String>,
}

/// A parameter as it is written.
struct Parameter<'d> {
    name: &'d str,
    place: &'d str,
    required: bool,
    body: &'d Value,
}

/// Reads an operation's parameters; those of its path count where it has none of that name itself.
pub(super) fn read<'d>(
    place: &Place<'d>,
    schemas: &mut Schemas<'d>,
    names: &mut Names,
) -> Result<Parameters, Unmapped> {
    let mut found: BTreeMap<(&str, &str), Parameter<'d>> = BTreeMap::new();
    for level in [place.item, place.operation()] {
        for written in level.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            let parameter = Parameter::of(place.document.resolve(written)?)?;
            found.insert((parameter.place, parameter.name), parameter);
        }
    }
    let mut parameters = Parameters::default();
    for parameter in found.values() {
        let added = parameters.add(parameter, place.document, schemas, names);
        match added {
            Err(Unmapped(why)) if !parameter.required => parameters.notes.push(format!("can't say {why}")),
            added => added?,
        }
    }
    Ok(parameters)
}

impl<'d> Parameter<'d> {
    fn of(body: &'d Value) -> Result<Self, Unmapped> {
        let text = |field: &str| body.get(field).and_then(Value::as_str);
        let (Some(name), Some(place)) = (text("name"), text("in")) else {
            return Err(Unmapped("a parameter has no name or no place".into()));
        };
        let required = place == "path" || body.get("required") == Some(&Value::Bool(true));
        Ok(Self { name, place, required, body })
    }

    fn unmapped(&self, why: &str) -> Unmapped {
        Unmapped(format!("the {} parameter {}: {why}", self.place, self.name))
    }
}

impl Parameters {
    fn add<'d>(
        &mut self,
        parameter: &Parameter<'d>,
        document: &'d Document<'d>,
        schemas: &mut Schemas<'d>,
        names: &mut Names,
    ) -> Result<(), Unmapped> {
        let header = parameter.name.to_ascii_lowercase();
        match (parameter.place, header.as_str()) {
            ("header", "idempotency-key") => {
                self.takes_key = true;
                return Ok(());
            }
            // By the specification these are no parameters.
            ("header", "accept" | "content-type" | "authorization") => return Ok(()),
            ("header", _) if !parameter.required => {
                return Err(parameter.unmapped("a header that may be absent can't be said"));
            }
            ("path" | "query" | "header", _) => {}
            _ => return Err(parameter.unmapped("nothing can be put there")),
        }
        let schema = parameter.body.get("schema");
        let schema = schema.ok_or_else(|| parameter.unmapped("its value is a document of its own"))?;
        check_shape(parameter, document, schema)?;
        let converted = schemas.convert(schema).map_err(|Unmapped(why)| parameter.unmapped(&why))?;
        let converted = described(converted, parameter.body);
        let field = names.unique(parameter.name);
        let template = format!("{{{{input.{field}}}}}");
        match parameter.place {
            "path" => drop(self.path.insert(parameter.name.to_owned(), field.clone())),
            "query" => drop(self.query.insert(parameter.name.to_owned(), template.into())),
            _ => drop(self.headers.insert(header, template.into())),
        }
        self.properties.insert(field.clone(), converted);
        if parameter.required {
            self.required.push(field);
        }
        Ok(())
    }
}

/// One value has one place; a query may have a list, as the same name several times.
fn check_shape<'d>(
    parameter: &Parameter<'d>,
    document: &Document<'d>,
    schema: &'d Value,
) -> Result<(), Unmapped> {
    let usual = if parameter.place == "query" { "form" } else { "simple" };
    let style = parameter.body.get("style").and_then(Value::as_str).unwrap_or(usual);
    let shape = shape(document, schema).map_err(|Unmapped(why)| parameter.unmapped(&why))?;
    if shape.object {
        return Err(parameter.unmapped("an object can't be put there"));
    }
    if style != usual {
        return Err(parameter.unmapped(&format!("the style {style} can't be said there")));
    }
    let is_repeated = usual == "form" && parameter.body.get("explode") != Some(&Value::Bool(false));
    if shape.nested || (shape.list && !is_repeated) {
        return Err(parameter.unmapped("a list can't be put there as it is to be written"));
    }
    Ok(())
}

/// The schema with the description of what it is for.
pub(super) fn described(schema: Value, of: &Value) -> Value {
    let description = of.get("description").and_then(Value::as_str).map(str::trim).unwrap_or_default();
    match schema {
        Value::Object(mut schema) if !description.is_empty() => {
            schema.insert("description".into(), description.into());
            Value::Object(schema)
        }
        schema => schema,
    }
}
