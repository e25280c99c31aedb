//! What is done while a run goes on.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::forms::{self, Forms};

/// One thing that is done. They are done in order, each as soon as it can be.
#[derive(Debug, Clone)]
pub enum Action {
    /// A call that waits for a person is let happen.
    Approve(Approval),
    /// It is refused.
    Deny(Approval),
    /// A person gives its result.
    Answer(Approval),
    /// A run that asks for more budget gets these limits.
    Raise(Map<String, Value>),
    /// An unclear effect is settled.
    Resolve(Resolve),
    /// A call of a client tool is answered.
    ToolResult(Submission),
    /// The run is told something.
    Steer(String),
    /// The run is cancelled.
    Cancel,
    /// The run, once it has ended, is continued by a new one.
    Continue(Continue),
    /// The run, once it has ended, is forked.
    Fork(Fork),
    /// Something is waited for.
    Wait(Condition),
}

/// A decision on a call that waits for a person.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The tool that is called; any, if none is named.
    pub tool: Option<String>,
    /// Arguments in place of the model's.
    pub input: Option<Map<String, Value>>,
    /// The result, where a person gives it.
    pub content: Option<Value>,
    /// Why.
    pub reason: Option<String>,
    /// Who decides, where several must.
    #[serde(rename = "as")]
    pub by: Option<String>,
    /// What is remembered of it, as in the API.
    pub remember: Option<Map<String, Value>>,
}

/// What became of an unclear effect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolve {
    /// The tool that was called; any, if none is named.
    pub tool: Option<String>,
    /// `applied` or `not_applied`.
    pub state: String,
    /// What the model is shown as the tool's result.
    pub content: Option<Value>,
}

/// The answer to a call of a client tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The tool that is called.
    pub tool: String,
    /// The result.
    #[serde(default)]
    pub content: Value,
    /// A failed call's code.
    pub error_code: Option<String>,
}

/// A run that goes on where another ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continue {
    /// Its limits.
    pub budgets: Option<Map<String, Value>>,
    /// What is said to it.
    pub input: Option<Value>,
}

/// A run that goes on from a step of another.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The step.
    pub after_step: u32,
    /// What is said to it.
    pub input: Option<Value>,
    /// `ledger` or `repeat`, as in the API.
    pub effects: Option<String>,
}

/// Something that is waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// So many requests have reached a tool.
    Called(String, u64),
    /// So many requests have reached the model.
    Asked(u64),
    /// The run has this status.
    Status(String),
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            called: Option<String>,
            times: Option<u64>,
            asked: Option<u64>,
            status: Option<String>,
        }
        match Written::deserialize(deserializer)? {
            Written { called: Some(tool), times, asked: None, status: None } => {
                Ok(Self::Called(tool, times.unwrap_or(1)))
            }
            Written { called: None, times: None, asked: Some(times), status: None } => Ok(Self::Asked(times)),
            Written { called: None, times: None, asked: None, status: Some(status) } => {
                Ok(Self::Status(status))
            }
            _ => Err(D::Error::custom("one of: called (and times), asked, status")),
        }
    }
}

/// A decision in a file: its parts, the tool's name alone, or nothing.
struct Decided(Approval);

impl<'de> Forms<'de> for Decided {
    const NEEDED: &'static str = "the name of a tool, or {tool: …, …}";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Self(Approval { tool: Some(text.to_owned()), ..Approval::default() }))
    }

    fn of_nothing<E: Error>() -> Result<Self, E> {
        Ok(Self(Approval::default()))
    }

    fn of_map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        Approval::deserialize(MapAccessDeserializer::new(map)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Decided {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

/// What takes nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl<'de> Forms<'de> for Action {
    const NEEDED: &'static str =
        "one of approve, deny, answer, raise, resolve, tool_result, steer, cancel, continue, fork and wait";

    fn of_text<E: Error>(text: &str) -> Result<Self, E> {
        match text {
            "approve" => Ok(Self::Approve(Approval::default())),
            "deny" => Ok(Self::Deny(Approval::default())),
            "cancel" => Ok(Self::Cancel),
            "continue" => Ok(Self::Continue(Continue::default())),
            _ => Err(forms::needed::<Self, E>()),
        }
    }

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let wrong = A::Error::custom;
        let name: String = map.next_key()?.ok_or_else(forms::needed::<Self, _>)?;
        let action = match name.as_str() {
            "approve" => Self::Approve(map.next_value::<Decided>()?.0),
            "deny" => Self::Deny(map.next_value::<Decided>()?.0),
            "answer" => {
                let answer: Approval = map.next_value()?;
                answer
                    .content
                    .is_some()
                    .then_some(Self::Answer(answer))
                    .ok_or_else(|| wrong("content is missing"))?
            }
            "raise" => Self::Raise(map.next_value()?),
            "resolve" => {
                let resolve: Resolve = map.next_value()?;
                let is_known = matches!(resolve.state.as_str(), "applied" | "not_applied");
                is_known
                    .then_some(Self::Resolve(resolve))
                    .ok_or_else(|| wrong("state is applied or not_applied"))?
            }
            "tool_result" => Self::ToolResult(map.next_value()?),
            "steer" => Self::Steer(map.next_value()?),
            "cancel" => map.next_value::<Option<Nothing>>().map(|_| Self::Cancel)?,
            "continue" => Self::Continue(map.next_value::<Option<Continue>>()?.unwrap_or_default()),
            "fork" => Self::Fork(map.next_value()?),
            "wait" => Self::Wait(map.next_value()?),
            other => return Err(wrong(&format!("{other} is none of the actions: {}", Self::NEEDED))),
        };
        match map.next_key::<String>()? {
            Some(second) => {
                Err(wrong(&format!("{name} and {second} are two actions, each an item of its own")))
            }
            None => Ok(action),
        }
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        forms::read(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(written: Value) -> Result<Action, String> {
        serde_path_to_error::deserialize(written).map_err(|fault| fault.to_string())
    }

    #[test]
    fn short_and_long_forms_are_one() {
        for written in [json!({"approve": "pay"}), json!({"approve": {"tool": "pay"}})] {
            let Ok(Action::Approve(approval)) = read(written) else { panic!("an approval") };
            assert_eq!(approval.tool.as_deref(), Some("pay"));
        }
        for written in [json!("approve"), json!({"approve": null}), json!({"approve": {}})] {
            let Ok(Action::Approve(approval)) = read(written) else { panic!("an approval") };
            assert_eq!(approval, Approval::default());
        }
        for written in [json!("cancel"), json!({"cancel": null}), json!({"cancel": {}})] {
            assert!(matches!(read(written), Ok(Action::Cancel)));
        }
        let called = read(json!({"wait": {"called": "pay"}}));
        assert!(matches!(called, Ok(Action::Wait(Condition::Called(tool, 1))) if tool == "pay"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (written, fault) in [
            (json!({"aprove": "pay"}), "aprove is none of the actions"),
            (json!({"approve": {"tol": "pay"}}), "approve.tol: unknown field `tol`"),
            (json!({"approve": "pay", "deny": "pay"}), "approve and deny are two actions"),
            (json!({"wait": {"called": "pay", "asked": 1}}), "wait: one of"),
            (json!({"cancel": {"when": "now"}}), "cancel.when: unknown field `when`"),
            (json!({"resolve": {"state": "maybe"}}), "state is applied or not_applied"),
            (json!({"answer": {"tool": "pay"}}), "content is missing"),
            (json!("steer"), "one of approve"),
            (json!(7), "one of approve"),
        ] {
            let told = read(written.clone()).expect_err("wrong");
            assert!(told.contains(fault), "{written}: {told}");
        }
    }
}
