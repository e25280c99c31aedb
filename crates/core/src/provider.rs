//! A provider's switches (`options`): where servers of one wire disagree, what this one wants. Absent ones get defaults
//! that the vendor itself takes; `docs/models.md` lists them by server.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::FieldError;
use crate::field_error;

/// Switches of the chat-completions wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "switches are what they are")]
pub struct OpenAiChatOptions {
    /// Ask for a stream.
    pub stream: bool,
    /// Ask a stream for its token counts (`stream_options`).
    pub stream_usage: bool,
    /// Path of completions below `base_url`.
    pub path: String,
    /// Header that holds the key: `authorization` holds `Bearer KEY`, any other the key itself.
    pub key_header: String,
    /// Role of system text.
    pub system_role: SystemRole,
    /// Field of the output cap.
    pub max_tokens_field: MaxTokensField,
    /// Send `temperature`; some models take only their own.
    pub temperature: bool,
    /// Send reasoning and unknown fields of earlier replies back, to the same provider and model.
    pub send_reasoning: bool,
    /// What calls are named by.
    pub call_ids: CallIds,
    /// Roles take turns: what users or assistants say in a row is joined, a user begins, and a word of the assistant's
    /// stands between results and a user.
    pub strict_turns: bool,
    /// `parallel_tool_calls` where there are tools; absent: not sent.
    pub parallel_tool_calls: Option<bool>,
    /// Mark tools as `strict` where their schema allows it.
    pub strict_tools: bool,
    /// Let `tool_choice` of the agent's `params` through.
    pub tool_choice: bool,
    /// How an agent's `output_schema` is told.
    pub structured_output: StructuredOutput,
    /// Send pictures; otherwise a line says that there was one.
    pub images: bool,
    /// Send documents; otherwise a line says that there was one.
    pub files: bool,
    /// Stop asking for a while when many attempts in a row fail.
    pub circuit_breaker: bool,
}

impl Default for OpenAiChatOptions {
    fn default() -> Self {
        Self {
            stream: true,
            stream_usage: true,
            path: "chat/completions".into(),
            key_header: "authorization".into(),
            system_role: SystemRole::System,
            max_tokens_field: MaxTokensField::MaxTokens,
            temperature: true,
            send_reasoning: false,
            call_ids: CallIds::Own,
            strict_turns: false,
            parallel_tool_calls: None,
            strict_tools: false,
            tool_choice: true,
            structured_output: StructuredOutput::JsonSchema,
            images: true,
            files: true,
            circuit_breaker: true,
        }
    }
}

/// Switches of the responses wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "switches are what they are")]
pub struct OpenAiResponsesOptions {
    /// Ask for a stream.
    pub stream: bool,
    /// Path of responses below `base_url`.
    pub path: String,
    /// As in [`OpenAiChatOptions::key_header`].
    pub key_header: String,
    /// Send `temperature`; reasoning models take only their own.
    pub temperature: bool,
    /// Ask for reasoning in sealed form and send it back, to the same provider and model.
    pub send_reasoning: bool,
    /// `parallel_tool_calls` where there are tools; absent: not sent.
    pub parallel_tool_calls: Option<bool>,
    /// Mark tools as `strict` where their schema allows it.
    pub strict_tools: bool,
    /// Let `tool_choice` of the agent's `params` through.
    pub tool_choice: bool,
    /// How an agent's `output_schema` is told.
    pub structured_output: StructuredOutput,
    /// Send pictures; otherwise a line says that there was one.
    pub images: bool,
    /// Send documents; otherwise a line says that there was one.
    pub files: bool,
    /// Stop asking for a while when many attempts in a row fail.
    pub circuit_breaker: bool,
}

impl Default for OpenAiResponsesOptions {
    fn default() -> Self {
        Self {
            stream: true,
            path: "responses".into(),
            key_header: "authorization".into(),
            temperature: true,
            send_reasoning: true,
            parallel_tool_calls: None,
            strict_tools: false,
            tool_choice: true,
            structured_output: StructuredOutput::JsonSchema,
            images: true,
            files: true,
            circuit_breaker: true,
        }
    }
}

/// Switches of the messages wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "switches are what they are")]
pub struct AnthropicOptions {
    /// Ask for a stream.
    pub stream: bool,
    /// Path of messages below `base_url`.
    pub path: String,
    /// As in [`OpenAiChatOptions::key_header`].
    pub key_header: String,
    /// `anthropic-version`.
    pub version: String,
    /// Send `temperature`. It is left out anyway where the model is to think.
    pub temperature: bool,
    /// Send thinking back, to the same provider and model.
    pub send_reasoning: bool,
    /// Mark what stays the same from request to request as worth caching.
    pub cache_control: CacheControl,
    /// `false` asks for one call a reply (`disable_parallel_tool_use`); absent: not sent.
    pub parallel_tool_calls: Option<bool>,
    /// Let `tool_choice` of the agent's `params` through.
    pub tool_choice: bool,
    /// Tell an agent's `output_schema` natively.
    pub structured_output: bool,
    /// Send pictures; otherwise a line says that there was one.
    pub images: bool,
    /// Send documents; otherwise a line says that there was one.
    pub files: bool,
    /// Stop asking for a while when many attempts in a row fail.
    pub circuit_breaker: bool,
}

impl Default for AnthropicOptions {
    fn default() -> Self {
        Self {
            stream: true,
            path: "messages".into(),
            key_header: "x-api-key".into(),
            version: "2023-06-01".into(),
            temperature: true,
            send_reasoning: true,
            cache_control: CacheControl::FiveMinutes,
            parallel_tool_calls: None,
            tool_choice: true,
            structured_output: true,
            images: true,
            files: true,
            circuit_breaker: true,
        }
    }
}

/// Switches of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedOptions {
    /// What it says when it is asked for a summary; absent: the beginnings of what is summed up.
    pub summary: Option<String>,
}

/// Role of system text on the chat-completions wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`.
    System,
    /// `developer`.
    Developer,
    /// The first message of the user's: for models that know no system text.
    User,
}

/// Field of the output cap on the chat-completions wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the wire's names")]
pub enum MaxTokensField {
    MaxTokens,
    MaxCompletionTokens,
}

/// What calls are named by on the chat-completions wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// The runtime's own ids, as everywhere else.
    Own,
    /// Nine letters and digits, made from them: Mistral takes no others.
    Short,
}

/// How an agent's `output_schema` is told to a model, beside the check that is always made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The schema itself.
    JsonSchema,
    /// That it must be JSON; the schema goes into the system text.
    JsonObject,
    /// In the system text alone.
    Off,
}

/// How long what is marked as worth caching is kept by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheControl {
    /// Nothing is marked.
    #[serde(rename = "off")]
    Off,
    /// Five minutes from its last use.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// An hour.
    #[serde(rename = "1h")]
    OneHour,
}

/// Most characters of a path, a header's name or a version.
const MAX_WORD: usize = 200;

/// Whether the switches of a provider of this kind can be read.
///
/// # Errors
/// Which can't, with its pointer below `options`.
pub fn check_options(kind: &str, options: &Map<String, Value>) -> Result<(), FieldError> {
    let options = Value::Object(options.clone());
    let words = match kind {
        "openai_chat" => {
            let read: OpenAiChatOptions = field_error::read(options)?;
            vec![("path", read.path), ("key_header", read.key_header)]
        }
        "openai_responses" => {
            let read: OpenAiResponsesOptions = field_error::read(options)?;
            vec![("path", read.path), ("key_header", read.key_header)]
        }
        "anthropic" => {
            let read: AnthropicOptions = field_error::read(options)?;
            vec![("path", read.path), ("key_header", read.key_header), ("version", read.version)]
        }
        _ => return field_error::read::<ScriptedOptions>(options).map(drop),
    };
    words.into_iter().try_for_each(|(name, word)| check_word(name, &word))
}

/// Switches as stored: they were checked then, so one that can't be read any more is taken as its default.
pub fn read_options<T: DeserializeOwned + Default>(options: &Map<String, Value>) -> T {
    let read = |options: Map<String, Value>| serde_json::from_value::<T>(Value::Object(options)).ok();
    let known = |(name, value): (&String, &Value)| {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        read(alone.clone()).map(|_| alone)
    };
    let of_known = || read(options.iter().filter_map(known).flatten().collect());
    read(options.clone()).or_else(of_known).unwrap_or_default()
}

/// A path goes below the base address and nowhere else; the others stand in headers.
fn check_word(name: &str, word: &str) -> Result<(), FieldError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c) || (name == "path" && c == '/');
    let climbs = name == "path" && word.split('/').any(|piece| matches!(piece, "" | "." | ".."));
    if word.is_empty() || word.len() > MAX_WORD || !word.chars().all(legal) || climbs {
        return Err(FieldError::new(format!("/{name}"), "letters, digits and -_.~ only, at most 200"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(kind: &str, options: Value) -> Option<String> {
        check_options(kind, options.as_object().expect("options")).err().map(|fault| fault.pointer)
    }

    #[test]
    fn switches_are_known_by_kind() {
        for (kind, options) in [
            ("openai_chat", json!({})),
            ("openai_chat", json!({"system_role": "developer", "max_tokens_field": "max_completion_tokens"})),
            (
                "openai_chat",
                json!({"path": "openai/deployments/x.y/chat/completions", "key_header": "api-key"}),
            ),
            ("openai_chat", json!({"call_ids": "short", "strict_turns": true})),
            ("openai_responses", json!({"structured_output": "off", "parallel_tool_calls": false})),
            ("anthropic", json!({"cache_control": "1h", "version": "2023-06-01"})),
            ("scripted", json!({"summary": "It went well."})),
        ] {
            assert_eq!(fault(kind, options.clone()), None, "{kind} {options}");
        }
        for (kind, options, pointer) in [
            ("openai_chat", json!({"colour": "red"}), "/colour"),
            ("openai_chat", json!({"stream": "yes"}), "/stream"),
            ("openai_chat", json!({"system_role": "king"}), "/system_role"),
            ("openai_chat", json!({"call_ids": "long"}), "/call_ids"),
            ("openai_chat", json!({"path": "../admin"}), "/path"),
            ("openai_chat", json!({"path": "/x"}), "/path"),
            ("openai_chat", json!({"path": "x?y=1"}), "/path"),
            ("openai_responses", json!({"key_header": "a b"}), "/key_header"),
            ("anthropic", json!({"cache_control": "2h"}), "/cache_control"),
            ("anthropic", json!({"version": ""}), "/version"),
            ("scripted", json!({"stream": true}), "/stream"),
        ] {
            assert_eq!(fault(kind, options.clone()).as_deref(), Some(pointer), "{kind} {options}");
        }
    }

    #[test]
    fn absent_switches_have_defaults() {
        let read: OpenAiChatOptions = read_options(json!({"stream": false}).as_object().expect("options"));
        assert_eq!(read, OpenAiChatOptions { stream: false, ..OpenAiChatOptions::default() });
        let odd = json!({"stream": false, "note": "x", "system_role": 7});
        let read: OpenAiChatOptions = read_options(odd.as_object().expect("options"));
        assert_eq!(read, OpenAiChatOptions { stream: false, ..OpenAiChatOptions::default() });
    }
}
