//! Turns as some models' templates want them: the user speaks first, users and assistants once at a time, and an assistant
//! speaks after results.

use serde_json::{Value, json};

use crate::fillers::BEGINNING;

/// What an assistant says between results and a user.
const SEEN: &str = "I have the results.";

/// Joins what users and assistants say in a row, parts results from a user, and lets a user begin. The user's last word is
/// there already.
pub(super) fn strict(messages: Vec<Value>) -> Vec<Value> {
    let mut turns: Vec<Value> = Vec::new();
    for message in messages {
        match turns.last_mut() {
            Some(last) if is(last, "user") && is(&message, "user") => join(last, message),
            Some(last) if is_words(last) && is(&message, "assistant") => join(last, message),
            Some(last) if is(last, "tool") && is(&message, "user") => {
                turns.extend([json!({"role": "assistant", "content": SEEN}), message]);
            }
            _ => turns.push(message),
        }
    }
    let begin = turns.iter().position(|turn| !is(turn, "system") && !is(turn, "developer"));
    let begin = begin.unwrap_or(turns.len());
    if turns.get(begin).is_none_or(|turn| !is(turn, "user")) {
        turns.insert(begin, json!({"role": "user", "content": BEGINNING}));
    }
    turns
}

/// Whether a message is an assistant's that calls nothing.
pub(super) fn is_words(message: &Value) -> bool {
    is(message, "assistant") && message.get("tool_calls").is_none()
}

fn is(message: &Value, role: &str) -> bool {
    message["role"] == role
}

/// Puts what was said before a message into it. Of what was kept of the two only what belongs to the later one stays.
fn join(last: &mut Value, mut message: Value) {
    let (known, more) = (last["content"].take(), message["content"].take());
    message["content"] = match (known, more) {
        (Value::String(known), Value::String(more)) => format!("{known}\n\n{more}").into(),
        (known, Value::Null) => known,
        (known, more) => parts(known).into_iter().chain(parts(more)).collect(),
    };
    *last = message;
}

fn parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        text => vec![json!({"type": "text", "text": text})],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assistants_speak_once_at_a_time_and_never_first() {
        let said = |role: &str, content: &str| json!({"role": role, "content": content});
        let call = |content: Value| json!({"role": "assistant", "content": content, "tool_calls": [{"id": "a"}], "kept": 2});
        let result = json!({"role": "tool", "tool_call_id": "a", "content": "r"});
        let system = said("system", "s");
        let begins = said("user", BEGINNING);
        let mut odd = said("assistant", "a");
        odd["kept"] = json!(1);
        let turns = strict(vec![
            system.clone(),
            odd,
            said("assistant", "b"),
            call(json!("c")),
            result.clone(),
            said("assistant", "d"),
            call(Value::Null),
            result.clone(),
        ]);
        let wanted = [
            system.clone(),
            begins.clone(),
            call(json!("a\n\nb\n\nc")),
            result.clone(),
            call(json!("d")),
            result,
        ];
        assert_eq!(turns, wanted);
        assert_eq!(strict(vec![system.clone()]), [system, begins]);
    }

    #[test]
    fn users_speak_once_at_a_time_and_never_after_results() {
        let user = |content: Value| json!({"role": "user", "content": content});
        let text = |text: &str| json!({"type": "text", "text": text});
        let system = json!({"role": "system", "content": "s"});
        let result = json!({"role": "tool", "tool_call_id": "a", "content": "r"});
        let turns = strict(vec![
            system.clone(),
            user(json!("a")),
            user(json!("b")),
            user(json!([text("c")])),
            user(json!("d")),
            result.clone(),
            result.clone(),
            user(json!("e")),
            user(json!("f")),
        ]);
        let wanted = [
            system,
            user(json!([text("a\n\nb"), text("c"), text("d")])),
            result.clone(),
            result,
            json!({"role": "assistant", "content": SEEN}),
            user(json!("e\n\nf")),
        ];
        assert_eq!(turns, wanted);
    }
}
