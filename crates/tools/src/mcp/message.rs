//! The messages of the protocol: JSON-RPC 2.0, read so that one odd part spoils no other.
//!
//! What a message bears stays text until somebody reads it: numbers keep their digits, and a tool that can't be read
//! is left out of its list alone.

use answerable_core::json;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::few::Few;

/// Most messages of one list that are read.
const MOST_AT_ONCE: usize = 1000;
/// Longest id of a request, in bytes.
const LONGEST_ID: usize = 1024;

/// A message that came in.
#[derive(Debug)]
pub(super) enum Message {
    /// An answer to a request of ours: its id (null where the server could read none) and what came of it.
    Answer(Value, Result<Box<RawValue>, RpcError>),
    /// The server asks something.
    Ask { id: Value, method: String },
    /// The server tells something.
    Told(String),
}

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
}

/// The text is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoMessage;

#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow, default)]
    id: Option<&'m RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    result: Option<&'m RawValue>,
    #[serde(borrow, default)]
    error: Option<&'m RawValue>,
}

impl Envelope<'_> {
    fn open(self) -> Result<Message, NoMessage> {
        let id = self.id.map(id_of).transpose()?;
        match (self.method, id, self.result, self.error) {
            (Some(method), Some(id), ..) => Ok(Message::Ask { id, method }),
            (Some(method), None, ..) => Ok(Message::Told(method)),
            (None, id, _, Some(error)) => Ok(Message::Answer(id.unwrap_or_default(), Err(opened(error)))),
            (None, Some(id), Some(result), None) => Ok(Message::Answer(id, Ok(result.to_owned()))),
            _ => Err(NoMessage),
        }
    }
}

/// Ids are texts and numbers; anything longer would only cost.
fn id_of(raw: &RawValue) -> Result<Value, NoMessage> {
    let is_short = raw.get().len() <= LONGEST_ID;
    is_short.then(|| serde_json::from_str(raw.get()).ok()).flatten().ok_or(NoMessage)
}

/// Some servers send an error in a form of their own; it is an error all the same.
fn opened(error: &RawValue) -> RpcError {
    serde_json::from_str(error.get())
        .unwrap_or_else(|_| RpcError { code: 0, message: error.get().trim_matches('"').to_owned() })
}

/// Reads a message, or several in a list as versions before 2025-06-18 sent them. What is none among these is left out.
pub(super) fn read(text: &str) -> Result<Vec<Message>, NoMessage> {
    let text = json::mend(text.trim_start_matches('\u{feff}').trim());
    if !text.starts_with('[') {
        return Ok(vec![one(&text)?]);
    }
    let list: Few<'_, MOST_AT_ONCE> = serde_json::from_str(&text).map_err(|_| NoMessage)?;
    let messages: Vec<Message> = list.items.iter().filter_map(|item| one(item.get()).ok()).collect();
    if messages.is_empty() { Err(NoMessage) } else { Ok(messages) }
}

fn one(text: &str) -> Result<Message, NoMessage> {
    // A list would be read field by field.
    let object = Some(text).filter(|text| text.starts_with('{')).ok_or(NoMessage)?;
    serde_json::from_str::<Envelope<'_>>(object).map_err(|_| NoMessage)?.open()
}

/// Whether the id of an answer is that of our request `asked`. Some servers write it as text.
pub(super) fn is_id(id: &Value, asked: u64) -> bool {
    id.as_u64() == Some(asked) || id.as_str().is_some_and(|text| text == asked.to_string())
}

/// A request.
pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// A notification.
pub(super) fn notification(method: &str, params: Option<Value>) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let Some(params) = params {
        message["params"] = params;
    }
    message.to_string()
}

/// What we say to a request of the server: that we are there, and that we offer nothing else.
pub(super) fn reply(id: &Value, method: &str) -> String {
    let refusal = json!({"code": rmcp::model::ErrorCode::METHOD_NOT_FOUND.0, "message": "not offered"});
    match method {
        "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
        _ => json!({"jsonrpc": "2.0", "id": id, "error": refusal}),
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<Message> {
        let mut messages = read(text).ok()?;
        assert_eq!(messages.len(), 1);
        messages.pop()
    }

    #[test]
    fn what_comes_is_told_apart() {
        let Some(Message::Answer(id, Ok(result))) =
            one("\u{feff} {\"id\": 7, \"result\": {\"n\": 12345678901234567890123, \"x\": 1.10}}\n")
        else {
            panic!("an answer")
        };
        assert!(
            is_id(&id, 7) && !is_id(&id, 8) && result.get().contains("12345678901234567890123, \"x\": 1.10")
        );
        assert!(
            matches!(one(r#"{"id":"7","result":{}}"#), Some(Message::Answer(id, Ok(_))) if is_id(&id, 7))
        );
        assert!(
            matches!(one(r#"{"id":7,"error":{"code":-32602,"message":"m"}}"#), Some(Message::Answer(_, Err(e)))
            if e == RpcError { code: -32602, message: "m".into() })
        );
        assert!(matches!(one(r#"{"id":null,"error":"boom"}"#), Some(Message::Answer(Value::Null, Err(e)))
            if e.message == "boom"));
        assert!(matches!(one(r#"{"id":1,"error":{"code":"E"}}"#), Some(Message::Answer(_, Err(_)))));
        assert!(
            matches!(one(r#"{"id":"a","method":"ping"}"#), Some(Message::Ask { method, .. }) if method == "ping")
        );
        assert!(matches!(one(r#"{"method":"notifications/x","params":{}}"#), Some(Message::Told(_))));
        assert_eq!(read(r#"[{"method":"a"},{"id":1,"result":{}}]"#).map(|all| all.len()), Ok(2));
        // Nor does one odd entry of a list.
        let kept = read(r#"[7, {"id":1}, [1, "m"], {"id":2,"result":{}}, {"id":[{}],"result":{}}, null]"#);
        assert!(
            matches!(kept.as_deref(), Ok([Message::Answer(id, Ok(_)), Message::Answer(..)]) if is_id(id, 2))
        );
        // A lone surrogate and a NUL spoil nothing.
        assert!(one(r#"{"id":1,"result":{"text":"\ud83d \u0000"}}"#).is_some());
    }

    #[test]
    fn anything_else_is_no_message() {
        for text in
            ["", "<html>", "7", "{}", r#"{"id":1}"#, r#"{"id":1,"result":null}"#, r#"{"result":{}}"#, "[7]"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_message_costs_no_more_than_it_is_worth() {
        let many = format!("[{}]", vec![r#"{"method":"m"}"#; MOST_AT_ONCE + 5].join(","));
        assert_eq!(read(&many).map(|all| all.len()), Ok(MOST_AT_ONCE));
        let id = format!("[{}]", vec!["1"; LONGEST_ID].join(","));
        assert!(read(&format!(r#"{{"id":{id},"method":"ping"}}"#)).is_err());
    }

    #[test]
    fn the_server_learns_what_we_offer() {
        assert!(reply(&json!(3), "ping").contains(r#""result":{}"#));
        assert!(reply(&json!("a"), "sampling/createMessage").contains("-32601"));
    }
}
