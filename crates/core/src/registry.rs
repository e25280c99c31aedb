//! ToolRegistry: does this tool exist, is this call legal? An agent compiled once, used for every call.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentSpec, ToolSpec};
use crate::context::FixedSizes;
use crate::model::ToolOffer;
use crate::permission::{CompiledPolicy, Owner};
use crate::schema::{Effort, Schema};
use crate::{FieldError, json};

/// An agent with its schemas compiled.
#[derive(Debug)]
pub struct Registry {
    /// The agent as it was stored.
    pub spec: AgentSpec,
    /// Its policy.
    pub policy: CompiledPolicy,
    schemas: HashMap<String, Schema>,
    output: Option<Schema>,
    pub(crate) fixed: FixedSizes,
}

/// What validation made of a call (contract, "ToolCall").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the contract's names")]
pub enum Validation {
    Ok,
    UnknownTool,
    MalformedArguments,
    SchemaViolation,
    OverLimit,
}

impl Validation {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::UnknownTool => "unknown_tool",
            Self::MalformedArguments => "malformed_arguments",
            Self::SchemaViolation => "schema_violation",
            Self::OverLimit => "over_limit",
        }
    }
}

/// A call that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Validated {
    /// The verdict.
    pub validation: Validation,
    /// The input: an object; `{}` where the arguments were none.
    pub input: Value,
    /// For the model: what was wrong.
    pub message: Option<String>,
}

impl Registry {
    /// Compiles an agent that [`crate::agent::check`] found sound.
    ///
    /// # Errors
    /// Every schema that doesn't compile, with pointers into the agent.
    pub fn compile(spec: AgentSpec) -> Result<Self, Vec<FieldError>> {
        let (mut schemas, mut errors) = (HashMap::new(), Vec::new());
        for (i, tool) in spec.tools.iter().enumerate() {
            match Schema::compile(&tool.input_schema) {
                Ok(schema) => {
                    schemas.insert(tool.name.clone(), schema);
                }
                Err(error) => errors.push(error.under(&format!("/tools/{i}/input_schema"))),
            }
        }
        let output = spec.output_schema.as_ref().map(Schema::compile).transpose().unwrap_or_else(|error| {
            errors.push(error.under("/output_schema"));
            None
        });
        match CompiledPolicy::compile(&spec.policy, Owner::Agent) {
            Ok(policy) if errors.is_empty() => {
                Ok(Self { spec, policy, schemas, output, fixed: FixedSizes::default() })
            }
            Ok(_) => Err(errors),
            Err(faults) => Err(errors
                .into_iter()
                .chain(faults.into_iter().map(|fault| fault.under("/policy")))
                .collect()),
        }
    }

    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.spec.tools.iter().find(|tool| tool.name == name)
    }

    /// Its version: the hash of all that it is. An approval is of one version of a tool.
    pub fn tool_version(&self, name: &str) -> Option<String> {
        let said = serde_json::to_value(self.tool(name)?).unwrap_or_default();
        Some(crate::json::sha256_hex(crate::json::canonical(&said).as_bytes()))
    }

    /// What the model is offered.
    pub fn offers(&self) -> Vec<ToolOffer> {
        let offer = |tool: &ToolSpec| ToolOffer {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: object_schema(&tool.input_schema),
        };
        self.spec.tools.iter().map(offer).collect()
    }

    /// Looks at a call as the model wrote it. What takes more effort than is left is refused.
    pub fn validate(&self, tool_name: &str, arguments: &str, effort: &Effort) -> Validated {
        let parsed = parse_arguments(arguments);
        let Some(schema) = self.schemas.get(tool_name) else {
            let names: Vec<&str> = self.spec.tools.iter().map(|tool| tool.name.as_str()).collect();
            let known = if names.is_empty() {
                "there are none".into()
            } else {
                format!("there are: {}", names.join(", "))
            };
            return Validated {
                validation: Validation::UnknownTool,
                input: parsed.unwrap_or_else(|_| empty()),
                message: Some(format!("There is no tool {tool_name:?}; {known}.")),
            };
        };
        match parsed {
            Err(message) => Validated {
                validation: Validation::MalformedArguments,
                input: empty(),
                message: Some(message),
            },
            Ok(input) => judge_input(schema, input, effort),
        }
    }

    /// Looks at an input that a person wrote: an empty list if it is legal.
    pub fn findings(&self, tool_name: &str, input: &Value) -> Vec<FieldError> {
        if !input.is_object() {
            return vec![FieldError::new("", "the input must be an object")];
        }
        let effort = Effort::of_one();
        self.schemas.get(tool_name).map(|schema| schema.findings(input, &effort)).unwrap_or_default()
    }

    /// What is wrong with a final answer under `output_schema`; `None` if nothing is.
    pub fn output_fault(&self, answer: &str) -> Option<String> {
        let schema = self.output.as_ref()?;
        match json::parse(answer) {
            Err(error) => Some(format!("it is no JSON: {error}")),
            Ok(value) => {
                let faults = schema.findings(&value, &Effort::of_one());
                let lines: Vec<String> =
                    faults.iter().map(|fault| format!("{}: {}", at(fault), fault.message)).collect();
                (!lines.is_empty()).then(|| lines.join("; "))
            }
        }
    }
}

fn judge_input(schema: &Schema, input: Value, effort: &Effort) -> Validated {
    let findings = schema.findings(&input, effort);
    if findings.is_empty() {
        return Validated { validation: Validation::Ok, input, message: None };
    }
    let lines: Vec<String> =
        findings.iter().map(|fault| format!("{}: {}", at(fault), fault.message)).collect();
    let message = format!("The arguments don't match the tool's schema. {}", lines.join("; "));
    Validated { validation: Validation::SchemaViolation, input, message: Some(message) }
}

fn at(fault: &FieldError) -> &str {
    if fault.pointer.is_empty() { "(the whole)" } else { &fault.pointer }
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

/// Arguments as an object; empty text means `{}`.
fn parse_arguments(arguments: &str) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(empty());
    }
    match json::parse(arguments) {
        Ok(value @ Value::Object(_)) => Ok(json::clean(value)),
        Ok(other) => Err(format!("The arguments must be a JSON object, not {}.", kind(&other))),
        Err(error) => Err(format!("The arguments are no valid JSON: {error}.")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Providers take object schemas only; one that says no type is taken as one.
fn object_schema(schema: &Value) -> Value {
    match schema {
        Value::Object(map) if map.get("type").and_then(Value::as_str) == Some("object") => schema.clone(),
        Value::Object(map) => {
            let mut map = map.clone();
            map.insert("type".into(), "object".into());
            Value::Object(map)
        }
        _ => serde_json::json!({"type": "object"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn registry() -> Registry {
        let spec = json!({"name": "a", "model": {"provider": "p", "model": "m"}, "output_schema": {"required": ["n"]},
            "tools": [{"name": "pay", "kind": "client", "input_schema": {"required": ["cart"],
                "properties": {"n": {"type": "integer"}}}}]});
        Registry::compile(serde_json::from_value(spec).expect("agent")).expect("compiles")
    }

    #[test]
    fn what_a_model_may_write() {
        let registry = registry();
        for (tool, arguments, wanted) in [
            ("pay", r#"{"cart": "c", "n": 1}"#, Validation::Ok),
            ("pay", "", Validation::SchemaViolation),
            ("pay", r#"{"cart": "c", "n": "1"}"#, Validation::SchemaViolation),
            ("pay", r#"{"cart": "c"#, Validation::MalformedArguments),
            ("pay", "[1]", Validation::MalformedArguments),
            ("pay", "null", Validation::MalformedArguments),
            ("wipe", "{}", Validation::UnknownTool),
            ("wipe", "[", Validation::UnknownTool),
        ] {
            let got = registry.validate(tool, arguments, &Effort::of_one());
            assert_eq!(got.validation, wanted, "{tool} {arguments}");
            assert!(got.input.is_object());
            assert_eq!(got.message.is_some(), wanted != Validation::Ok);
        }
        let fault =
            registry.validate("pay", r#"{"cart": 1, "n": 1.5}"#, &Effort::of_one()).message.expect("a fault");
        assert!(fault.contains("/n"), "{fault}");
    }

    #[test]
    fn the_model_is_offered_object_schemas() {
        let offer = &registry().offers()[0];
        assert_eq!(offer.input_schema["type"], "object");
        assert_eq!(offer.input_schema["required"], json!(["cart"]));
    }

    #[test]
    fn an_answer_is_judged_by_its_schema() {
        let registry = registry();
        assert_eq!(registry.output_fault(r#"{"n": 1}"#), None);
        assert!(registry.output_fault("so be it").is_some());
        assert!(registry.output_fault("{}").is_some());
    }
}
