//! Values that come in pieces, put together: text grows, and lists of blocks do, of which each has a type and the words of
//! one may come in several pieces (reasoning does).

use serde_json::{Map, Value};

/// Fields of a block that hold its words: text, or blocks again.
const WORDS: [&str; 3] = ["text", "summary", "thinking"];

/// Most blocks of a list that grows.
const MOST_BLOCKS: usize = 4000;
/// How many of a list's last blocks are looked through for one that is sent again. All of them would be too much work where
/// there are many.
const MOST_LOOKED_AT: usize = 32;

/// Adds what a later piece says. False: the whole can't be told.
pub(super) fn grow(known: &mut Value, more: &Value) -> bool {
    match (known, more) {
        (Value::String(whole), Value::String(more)) => {
            whole.push_str(more);
            true
        }
        // Of what is there the ends tell: whatever was added was looked at then.
        (Value::Array(list), Value::Array(more))
            if list.first().is_some_and(is_block) && list.last().is_some_and(is_block) && is_blocks(more) =>
        {
            more.iter().all(|block| add(list, block))
        }
        (known, more) => known == more,
    }
}

fn is_blocks(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(is_block)
}

fn is_block(value: &Value) -> bool {
    value["type"].is_string()
}

fn add(list: &mut Vec<Value>, block: &Value) -> bool {
    // A block that is whole in itself may be sent again.
    let is_known = !has_words(block) && list.iter().rev().take(MOST_LOOKED_AT).any(|known| known == block);
    let is_full = list.len() >= MOST_BLOCKS;
    match list.last_mut().and_then(Value::as_object_mut).filter(|last| goes_on(last, block)) {
        Some(last) => return grow_block(last, block),
        None if is_known => {}
        None if is_full => return false,
        None => list.push(block.clone()),
    }
    true
}

/// Whether a block is the next piece of the last one. Sealed ones are whole, and a signature ends one.
fn goes_on(last: &Map<String, Value>, block: &Value) -> bool {
    let of_last = |name: &str| last.get(name).unwrap_or(&Value::Null);
    let is_same = |name: &str| {
        let (known, new) = (of_last(name), &block[name]);
        known == new || known.is_null() || new.is_null()
    };
    let is_open = WORDS.iter().any(|name| !of_last(name).is_null()) && is_blank(of_last("signature"));
    let is_sealed = !of_last("data").is_null() || !block["data"].is_null();
    is_open && !is_sealed && of_last("type") == &block["type"] && is_same("index") && is_same("id")
}

fn has_words(block: &Value) -> bool {
    WORDS.iter().any(|name| !block[*name].is_null())
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value == ""
}

fn grow_block(known: &mut Map<String, Value>, block: &Value) -> bool {
    block.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).all(|(name, value)| {
        match known.get_mut(name) {
            Some(whole) if !is_blank(whole) && WORDS.contains(&name.as_str()) => grow(whole, value),
            Some(whole) if !is_blank(whole) => whole == value || is_blank(value),
            _ => {
                known.insert(name.clone(), value.clone());
                true
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn together(pieces: &[Value]) -> Option<Value> {
        let mut whole = pieces[0].clone();
        pieces[1..].iter().all(|piece| grow(&mut whole, piece)).then_some(whole)
    }

    #[test]
    fn many_blocks_are_too_many() {
        let sealed = |n: usize| json!([{"type": "reasoning.encrypted", "data": n}]);
        let mut whole = sealed(0);
        assert!((1..MOST_BLOCKS).all(|n| grow(&mut whole, &sealed(n))));
        // Looked for among all that are there, this would take minutes.
        assert!((0..20_000).all(|_| grow(&mut whole, &sealed(MOST_BLOCKS - MOST_LOOKED_AT))));
        assert_eq!(whole.as_array().map(Vec::len), Some(MOST_BLOCKS));
        assert!(!grow(&mut whole, &sealed(MOST_BLOCKS)));
    }

    #[test]
    fn what_grows() {
        let signed = |text: &str, index: u64| json!({"type": "reasoning.text", "text": text, "signature": "c2ln", "index": index});
        let sealed = |id: &str| json!({"type": "reasoning.encrypted", "data": "c2Vh", "id": id, "index": 0});
        for (pieces, wanted) in [
            (vec![json!("a"), json!("a"), json!("b")], Some(json!("aab"))),
            (vec![json!({"n": 1}), json!({"n": 1})], Some(json!({"n": 1}))),
            (vec![json!({"n": 1}), json!({"n": 2})], None),
            (vec![json!([7]), json!([8])], None),
            (
                vec![
                    json!([{"type": "reasoning.text", "text": "So ", "signature": null, "index": 0}]),
                    json!([{"type": "reasoning.text", "text": "so", "index": 0}]),
                    json!([{"type": "reasoning.text", "signature": "c2ln", "index": 0}]),
                    json!([{"type": "reasoning.text", "text": "Then", "index": 1}]),
                    json!([{"type": "reasoning.text", "text": "", "signature": "c2ln", "index": 1}]),
                ],
                Some(json!([signed("So so", 0), signed("Then", 1)])),
            ),
            (
                vec![
                    json!([{"type": "thinking", "thinking": "a", "signature": "x"}]),
                    json!([{"type": "thinking", "thinking": "b"}]),
                    json!([{"type": "redacted_thinking", "data": "c"}, {"type": "redacted_thinking", "data": "d"}]),
                ],
                Some(
                    json!([{"type": "thinking", "thinking": "a", "signature": "x"}, {"type": "thinking", "thinking": "b"},
                    {"type": "redacted_thinking", "data": "c"}, {"type": "redacted_thinking", "data": "d"}]),
                ),
            ),
            (
                vec![
                    json!([{"type": "reasoning.summary", "summary": "**Plan", "index": 0}]),
                    json!([{"type": "reasoning.summary", "summary": "ning**", "index": 0, "id": "rs_1"}, sealed("rs_1")]),
                    json!([sealed("rs_1")]),
                    json!([sealed("rs_2")]),
                ],
                Some(
                    json!([{"type": "reasoning.summary", "summary": "**Planning**", "index": 0, "id": "rs_1"},
                    sealed("rs_1"), sealed("rs_2")]),
                ),
            ),
            (
                vec![
                    json!([{"type": "thinking", "thinking": [{"type": "text", "text": "Let "}]}]),
                    json!([{"type": "thinking", "thinking": [{"type": "text", "text": "us see."}], "closed": true}]),
                ],
                Some(
                    json!([{"type": "thinking", "thinking": [{"type": "text", "text": "Let us see."}], "closed": true}]),
                ),
            ),
            (
                vec![
                    json!([{"type": "reasoning.text", "text": "a", "format": "x"}]),
                    json!([{"type": "reasoning.text", "text": "b", "format": "y"}]),
                ],
                None,
            ),
        ] {
            assert_eq!(together(&pieces), wanted, "{pieces:?}");
        }
    }
}
