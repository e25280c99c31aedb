//! The tools that the runtime itself has (contract, "Workspaces" and "Built-in tools' inputs").

use serde_json::{Map, Value, json};

use super::tool_spec::{Risk, SideEffect, ToolKind};

/// A tool of the runtime's.
#[derive(Debug)]
pub struct Builtin {
    /// What it is called.
    pub name: &'static str,
    /// What runs it.
    pub kind: ToolKind,
    /// For the model.
    pub description: &'static str,
    /// How much harm it can do, where the agent doesn't say.
    pub risk: Risk,
    /// Whether it changes something, where the agent doesn't say.
    pub side_effect: SideEffect,
    fields: &'static [Field],
}

/// A field of an input.
#[derive(Debug)]
struct Field {
    name: &'static str,
    required: bool,
    is_text: bool,
    /// Least value of a number.
    least: u64,
    description: &'static str,
}

const fn text(name: &'static str, description: &'static str) -> Field {
    Field { name, required: true, is_text: true, least: 0, description }
}

const fn number(name: &'static str, least: u64, description: &'static str) -> Field {
    Field { name, required: false, is_text: false, least, description }
}

const fn optional(field: Field) -> Field {
    Field { required: false, ..field }
}

const PATH: Field = text("path", "Path of the file, such as notes/a.txt.");
const PREFIX: Field = optional(text("prefix", "Only files whose path begins so."));

const fn reads(name: &'static str, description: &'static str, fields: &'static [Field]) -> Builtin {
    let (kind, risk, side_effect) = (ToolKind::Workspace, Risk::Low, SideEffect::None);
    Builtin { name, kind, description, risk, side_effect, fields }
}

const fn writes(name: &'static str, description: &'static str, fields: &'static [Field]) -> Builtin {
    let (kind, risk, side_effect) = (ToolKind::Workspace, Risk::Medium, SideEffect::Write);
    Builtin { name, kind, description, risk, side_effect, fields }
}

/// All of them.
pub const BUILTINS: [Builtin; 7] = [
    reads(
        "read_file",
        "Reads a text file of the workspace, with line numbers. Long files come in parts: ask for the next lines.",
        &[
            PATH,
            number("from_line", 1, "First line to read, counted from 1."),
            number("lines", 1, "How many lines to read."),
        ],
    ),
    writes(
        "write_file",
        "Writes a whole text file of the workspace. A file that exists must have been read before; if somebody changed it \
         since, nothing is written.",
        &[PATH, text("content", "The whole new content.")],
    ),
    writes(
        "edit_file",
        "Replaces one place in a text file of the workspace. The old text must stand in the file exactly once, to the \
         last space.",
        &[
            PATH,
            text("old_text", "The text to replace, exactly as it stands in the file."),
            text("new_text", "What stands there afterwards."),
        ],
    ),
    reads("list_files", "Lists the files of the workspace with their sizes.", &[PREFIX]),
    reads(
        "search_files",
        "Searches the text files of the workspace by a regular expression, line by line.",
        &[text("pattern", "A regular expression."), PREFIX],
    ),
    reads(
        "read_artifact",
        "Reads a part of a long output that was kept as an artifact.",
        &[
            text("artifact_id", "The artifact's id."),
            number("offset", 0, "Characters to skip."),
            number("limit", 1, "Characters to read."),
        ],
    ),
    Builtin {
        name: "run_command",
        kind: ToolKind::Shell,
        description: "Runs a shell command in a sandbox over a copy of the workspace; changed files are kept when it ends.",
        risk: Risk::High,
        side_effect: SideEffect::Write,
        fields: &[
            text("command", "The command, for /bin/sh."),
            number("timeout_ms", 1, "Milliseconds that it may take."),
        ],
    },
];

/// The built-in tool of that kind and name.
pub fn find(kind: ToolKind, name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|tool| tool.kind == kind && tool.name == name)
}

impl Builtin {
    /// JSON Schema of its input.
    pub fn input_schema(&self) -> Value {
        let required: Vec<&str> =
            self.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
        let properties: Map<String, Value> =
            self.fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

impl Field {
    fn schema(&self) -> Value {
        if self.is_text {
            json!({"type": "string", "description": self.description})
        } else {
            json!({"type": "integer", "minimum": self.least, "description": self.description})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_schemas_compile_and_say_what_is_needed() {
        for tool in &BUILTINS {
            let schema = crate::schema::Schema::compile(&tool.input_schema()).expect("a schema");
            let faults = schema.findings(&json!({}), &crate::schema::Effort::of_one()).len();
            assert_eq!(faults == 0, tool.fields.iter().all(|field| !field.required), "{}", tool.name);
        }
        let read = find(ToolKind::Workspace, "read_file").expect("it is there").input_schema();
        assert_eq!(read["required"], json!(["path"]));
        assert!(find(ToolKind::Shell, "read_file").is_none());
    }
}
