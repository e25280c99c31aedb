//! From a model's reply to calls that can be decided on: outside input, looked at before anything else happens.

use serde::{Deserialize, Serialize};

use crate::budget::MAX_COUNT;
use crate::id::CallId;
use crate::model::{Finish, ModelReply, Usage, estimate_tokens};
use crate::registry::{Registry, Validation};
use crate::schema::Effort;
use crate::{json, text};

/// Calls of one reply that are taken; providers take no more in one message.
pub const MAX_CALLS: usize = 128;
/// Code points that are kept of a tool's name or a call's id as the model wrote them.
pub(crate) const MAX_NAME: usize = 256;

/// A cap below this tells nothing by itself: some providers take none so small, and are sent a larger one.
const TELLING_CAP: u64 = 16;

/// What kind of reply it is (contract, "Behaviours decided" 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// It has calls; text beside them is kept.
    Calls,
    /// Text alone: the answer.
    Final,
    /// Cut by the cap: no call in it runs.
    Truncated,
    /// Neither text nor calls.
    Empty,
    /// The model or a filter refused.
    Refusal,
}

impl ReplyKind {
    /// Why a reply of this kind is no summary; `None`: it is one.
    pub fn summary_fault(self) -> Option<&'static str> {
        match self {
            Self::Final => None,
            Self::Truncated => Some("reply_truncated"),
            Self::Empty => Some("empty_reply"),
            Self::Refusal => Some("model_refusal"),
            Self::Calls => Some("calls_instead_of_text"),
        }
    }
}

/// A reply that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Kind.
    pub kind: ReplyKind,
    /// Text, fit for storage.
    pub text: String,
    /// Calls with ids of our own, in the model's order.
    pub calls: Vec<ReadCall>,
    /// Tokens, estimated where the provider didn't say.
    pub usage: Usage,
}

/// A call that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadCall {
    /// Ours.
    pub id: CallId,
    /// The model's, for evidence only.
    pub model_call_id: Option<String>,
    /// Tool as the model wrote it.
    pub tool_name: String,
    /// The input: always an object.
    pub input: serde_json::Value,
    /// Hash of the input.
    pub input_hash: String,
    /// The verdict.
    pub validation: Validation,
    /// For the model: what was wrong.
    pub message: Option<String>,
    /// Beyond [`MAX_CALLS`]: it stands in no history.
    pub left_out: bool,
}

/// Reads a reply. `estimated_input` is the request's size in tokens, for providers that tell nothing; `cap` the cap that
/// was asked for; `ids` gives one id a call.
pub fn read(
    registry: &Registry,
    reply: &ModelReply,
    estimated_input: u64,
    cap: Option<u64>,
    mut ids: impl FnMut() -> CallId,
) -> Reading {
    let said = json::clean_text(&reply.text);
    let usage = believable_usage(reply, estimated_input);
    let kind = kind_of(reply, &said, cap, &usage);
    let effort = Effort::of_reply();
    let calls = reply.calls.iter().enumerate().map(|(i, call)| {
        let tool_name = json::clean_text(text::head(&call.name, MAX_NAME));
        let validated = registry.validate(&tool_name, &call.arguments, &effort);
        let left_out = i >= MAX_CALLS;
        let limit = format!("At most {MAX_CALLS} calls of one reply are taken.");
        ReadCall {
            id: ids(),
            model_call_id: call.id.as_deref().map(|id| json::clean_text(text::head(id, MAX_NAME))),
            tool_name,
            input_hash: json::input_hash(&validated.input),
            input: validated.input,
            validation: if left_out { Validation::OverLimit } else { validated.validation },
            message: if left_out { Some(limit) } else { validated.message },
            left_out,
        }
    });
    Reading { kind, calls: calls.collect(), text: said, usage }
}

fn kind_of(reply: &ModelReply, text: &str, cap: Option<u64>, usage: &Usage) -> ReplyKind {
    // A reply exactly as long as its cap was cut, whatever its finish reason says.
    let at_cap = !usage.estimated && cap.is_some_and(|cap| cap >= TELLING_CAP && usage.output_tokens >= cap);
    let blank = text.trim().is_empty();
    if reply.finish == Finish::Refusal {
        ReplyKind::Refusal
    } else if reply.finish == Finish::Length || at_cap {
        ReplyKind::Truncated
    } else if !reply.calls.is_empty() {
        ReplyKind::Calls
    } else if blank {
        ReplyKind::Empty
    } else {
        ReplyKind::Final
    }
}

/// Missing usage is estimated, and so is an explicit zero where something was said (contract, "Usage").
fn believable_usage(reply: &ModelReply, estimated_input: u64) -> Usage {
    let said: u64 = estimate_tokens(&reply.text)
        + reply
            .calls
            .iter()
            .map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments))
            .sum::<u64>();
    let told = reply.usage.unwrap_or(Usage { estimated: true, ..Usage::default() });
    let input_known = reply.usage.is_some() && told.input_tokens > 0;
    let output_known = reply.usage.is_some() && (told.output_tokens > 0 || said == 0);
    Usage {
        input_tokens: if input_known { told.input_tokens.min(MAX_COUNT) } else { estimated_input },
        output_tokens: if output_known { told.output_tokens.min(MAX_COUNT) } else { said },
        cached_input_tokens: told.cached_input_tokens.min(MAX_COUNT),
        cache_write_tokens: told.cache_write_tokens.min(MAX_COUNT),
        estimated: told.estimated || !input_known || !output_known,
    }
}

/// Characters that stay of a name that is replaced; the rest tells it from others.
const KEPT: usize = 51;
/// Digits of the hash that tell it from others.
const HASH: usize = 12;

/// The name of a tool as providers take it: letters, digits, `_` and `-`, 64 at most. One that isn't is replaced, and two
/// that look alike then are told apart by a hash.
pub fn legal_name(name: &str) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(is_legal) {
        return name.to_owned();
    }
    let kept: String = name.chars().map(|c| if is_legal(c) { c } else { '_' }).take(KEPT).collect();
    let kept = if kept.is_empty() { "unnamed" } else { &kept };
    let hash = json::sha256_hex(name.as_bytes());
    let hash = hash.rsplit(':').next().unwrap_or_default();
    format!("{kept}_{}", text::head(hash, HASH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ReplyCall;
    use serde_json::{Map, json};
    use uuid::Uuid;

    fn registry() -> Registry {
        let spec = json!({"name": "a", "model": {"provider": "p", "model": "m"}, "tools": [{"name": "pay", "kind": "client"}]});
        Registry::compile(serde_json::from_value(spec).expect("agent")).expect("compiles")
    }

    fn reply(text: &str, calls: &[&str], finish: Finish, usage: Option<(u64, u64)>) -> ModelReply {
        let call = |arguments: &&str| ReplyCall {
            id: Some("dup".into()),
            name: "pay".into(),
            arguments: (*arguments).into(),
        };
        ModelReply {
            text: text.into(),
            calls: calls.iter().map(call).collect(),
            finish,
            finish_reason: None,
            usage: usage.map(|(input, output)| Usage {
                input_tokens: input,
                output_tokens: output,
                ..Usage::default()
            }),
            extra: Map::new(),
        }
    }

    fn look(reply: &ModelReply, cap: Option<u64>) -> Reading {
        let mut n = 0;
        read(&registry(), reply, 70, cap, || {
            n += 1;
            CallId(Uuid::from_u128(n))
        })
    }

    #[test]
    fn kinds() {
        use ReplyKind::{Calls, Empty, Final, Refusal, Truncated};
        for (reply, cap, wanted) in [
            (reply("hi", &[], Finish::Stop, None), None, Final),
            (reply(" \n", &[], Finish::Stop, None), None, Empty),
            (reply("", &["{}"], Finish::Stop, None), None, Calls),
            (reply("hi", &["{}"], Finish::Other, None), None, Calls),
            (reply("hi", &["{}"], Finish::Length, None), None, Truncated),
            (reply("hi", &["{}"], Finish::Stop, Some((1, 40))), Some(40), Truncated),
            (reply("hi", &[], Finish::Stop, Some((1, 39))), Some(40), Final),
            (reply("hi", &[], Finish::Stop, Some((1, 12))), Some(8), Final),
            (reply("hi", &[], Finish::Length, Some((1, 12))), Some(8), Truncated),
            (reply("hi", &["{}"], Finish::Refusal, None), None, Refusal),
        ] {
            assert_eq!(look(&reply, cap).kind, wanted, "{reply:?}");
        }
    }

    #[test]
    fn ids_are_ours_and_arguments_are_objects() {
        let reading =
            look(&reply("", &["", "[1]", r#"{"a": 12345678901234567890}"#], Finish::Stop, None), None);
        let ids: std::collections::HashSet<_> = reading.calls.iter().map(|call| call.id).collect();
        assert_eq!(ids.len(), 3);
        assert_eq!(reading.calls[1].validation, Validation::MalformedArguments);
        let arguments: Vec<_> = reading.calls.iter().map(|call| call.input.to_string()).collect();
        assert_eq!(arguments, ["{}", "{}", r#"{"a":12345678901234567890}"#]);
    }

    #[test]
    fn no_more_calls_than_providers_take() {
        let many: Vec<&str> = vec!["{}"; 200];
        let reading = look(&reply("", &many, Finish::Stop, None), None);
        assert_eq!(reading.calls.iter().filter(|call| !call.left_out).count(), MAX_CALLS);
        assert!(reading.calls[MAX_CALLS..].iter().all(|call| call.validation == Validation::OverLimit));
    }

    #[test]
    fn usage_is_estimated_where_it_is_not_believable() {
        let told = look(&reply("hi", &[], Finish::Stop, Some((9, 2))), None).usage;
        assert_eq!((told.input_tokens, told.output_tokens, told.estimated), (9, 2, false));
        for usage in [None, Some((0, 0))] {
            let guessed = look(&reply("some words said", &[], Finish::Stop, usage), None).usage;
            assert_eq!((guessed.input_tokens, guessed.output_tokens, guessed.estimated), (70, 4, true));
        }
        let empty = look(&reply("", &[], Finish::Stop, Some((9, 0))), None).usage;
        assert_eq!((empty.output_tokens, empty.estimated), (0, false));
    }

    #[test]
    fn names_are_made_legal() {
        for name in ["look around!", "look_around?", "", "a/b", "a.b", "é", &"x".repeat(200), &"x".repeat(65)]
        {
            let legal = legal_name(name);
            assert!(legal.len() <= 64 && legal != name && legal_name(&legal) == legal, "{legal}");
        }
        assert_ne!(legal_name("look around!"), legal_name("look around?"));
        assert!(legal_name("look around!").starts_with("look_around__"));
        assert_eq!(legal_name(&"x".repeat(64)), "x".repeat(64));
    }
}
