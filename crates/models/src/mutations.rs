//! What the fuzz targets call, over recorded answers that were changed at random.

#[path = "../../../tests/fuzz/src/entries.rs"]
pub mod entries;

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

/// Answers, streams and requests of all recorded exchanges, by wire.
static SEEDS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchanges");
    let mut seeds = Vec::new();
    for wire in entries_of(&folder) {
        let name = wire.file_name().expect("a name").to_string_lossy().into_owned();
        for file in entries_of(&wire) {
            let text = std::fs::read_to_string(file).expect("a file");
            let exchange: Value = serde_json::from_str(&text).expect("JSON");
            for field in ["answer", "stream"] {
                let seed = match &exchange[field] {
                    Value::Null => continue,
                    Value::String(text) => text.clone(),
                    Value::Array(lines) => {
                        lines.iter().map(|line| format!("{}\n", line.as_str().expect("a line"))).collect()
                    }
                    object => object.to_string(),
                };
                seeds.push((name.clone(), seed.into_bytes()));
            }
        }
    }
    seeds
});

fn entries_of(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// What is put in somewhere.
const TOKENS: [&str; 24] = [
    "null",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-1",
    "1e999",
    "12345678901234567890",
    "\"\\ud83d\"",
    "\\u0000",
    "\u{fdd0}",
    "🦊",
    "sk-secret-1",
    "\n\n",
    "\r",
    "data: [DONE]\n\n",
    "event: error\n",
    ": ping\n\n",
    "data: {}\n\n",
    "\"error\": {},",
    "\"type\":",
    "\"index\": 7,",
    "{\"",
    "\u{feff}",
];

/// One change of some bytes.
#[derive(Debug, Clone)]
enum Change {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index, usize),
    Twice(prop::sample::Index, usize),
    Put(prop::sample::Index, &'static str),
    /// Goes on with another seed.
    GoOn(prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Flip(at, byte)),
        (at(), 1..200_usize).prop_map(|(at, length)| Change::Cut(at, length)),
        (at(), 1..2000_usize).prop_map(|(at, length)| Change::Twice(at, length)),
        (at(), prop::sample::select(TOKENS.to_vec())).prop_map(|(at, token)| Change::Put(at, token)),
        (at(), at()).prop_map(|(at, other)| Change::GoOn(at, other)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let length = bytes.len() + 1;
        match change {
            Change::Flip(at, byte) => {
                let at = at.index(length);
                bytes.get_mut(at).into_iter().for_each(|known| *known ^= byte);
            }
            Change::Cut(at, count) => {
                let at = at.index(length);
                bytes.drain(at..bytes.len().min(at + count));
            }
            Change::Twice(at, count) => {
                let at = at.index(length);
                let again = bytes[at..bytes.len().min(at + count)].to_vec();
                bytes.splice(at..at, again);
            }
            Change::Put(at, token) => {
                let at = at.index(length);
                bytes.splice(at..at, token.bytes());
            }
            Change::GoOn(at, other) => {
                bytes.truncate(at.index(length));
                let (_, other) = &SEEDS[other.index(SEEDS.len())];
                bytes.extend(&other[at.index(other.len())..]);
            }
        }
    }
    bytes
}

/// The entry of each parser that is fed with answers.
fn feed(wire: &str, bytes: &[u8]) {
    match wire {
        "openai_chat" => entries::chat(bytes),
        "openai_responses" => entries::responses(bytes),
        "anthropic" => entries::messages(bytes),
        other => panic!("no entry for {other}"),
    }
    entries::events(bytes);
    entries::refusal(bytes);
    entries::json(bytes);
    entries::template(bytes);
}

#[test]
fn recorded_answers() {
    for (wire, seed) in SEEDS.iter() {
        feed(wire, seed);
        // A wire that is spoken to in another's words.
        for wire in crate::fuzzing::WIRES {
            feed(wire, seed);
        }
    }
}

#[test]
fn no_cut_is_a_shorter_reply() {
    let (target, request) = (Default::default(), Default::default());
    for (wire, seed) in SEEDS.iter().filter(|(_, seed)| !seed.starts_with(b"{")) {
        let read = |bytes: &[u8]| crate::fuzzing::reply(wire, &target, &request, bytes, usize::MAX).ok();
        let Some(whole) = read(seed) else { continue };
        // All around the ends of lines, and somewhere within them.
        let near = |at: usize| seed[at.saturating_sub(2)..(at + 2).min(seed.len())].contains(&b'\n');
        for at in (0..seed.len()).filter(|at| near(*at) || at % 97 == 0) {
            if let Some(reply) = read(&seed[..at]) {
                let reply = answerable_core::model::ModelReply { usage: whole.usage, ..reply };
                assert_eq!(reply, whole, "{wire}, cut at {at}: {}", String::from_utf8_lossy(seed));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_answers(
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let (wire, seed) = &SEEDS[seed.index(SEEDS.len())];
        feed(wire, &changed(seed.clone(), &changes));
    }

    #[test]
    fn changed_documents(
        seed in prop::sample::select(DOCUMENTS.to_vec()),
        changes in prop::collection::vec(change(), 0..4),
    ) {
        let bytes = changed(seed.as_bytes().to_vec(), &changes);
        entries::input(&bytes);
        entries::options(&bytes);
        entries::kept(&bytes);
        entries::json(&bytes);
        entries::template(&bytes);
        entries::schema(&bytes);
        entries::paths(&bytes);
    }
}

/// Input, switches, kept blocks, templates, schemas with what they judge, and paths.
const DOCUMENTS: [&str; 14] = [
    r##"[{"type": "object", "required": ["lines"], "properties": {"lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/line"}}}, "$defs": {"line": {"properties": {"n": {"type": "integer", "multipleOf": 0.01, "maximum": 9}, "under": {"$ref": "#"}}}}}, {"lines": [{"n": 1.50, "under": {"lines": []}}]}, {}]"##,
    r##"[{"anyOf": [{"$ref": "#"}, {"const": 12345678901234567890}], "not": {"format": "date-time"}, "pattern": "^(a+)+$"}, 1e400, "aaaaaaaaaaaaaaaaaaaaaaaa!"]"##,
    r#"{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}], "additionalItems": false, "uniqueItems": true}"#,
    r#"[{"patternProperties": {"^a": {"type": ["string", "null"]}}, "propertyNames": {"maxLength": 3}, "dependentRequired": {"a": ["b"]}, "unevaluatedProperties": false}, {"a": null, "long/name": 1}]"#,
    "notes/2026/a file (1).txt",
    "/a/../b//c/./\\d\0",
    r#"[{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "url": "https://x.example/a.png"}]}]"#,
    r#""hello""#,
    r#"{"stream": false, "send_reasoning": true, "structured_output": "off", "path": "v1/x", "key_header": "api-key"}"#,
    r#"{"cache_control": "1h", "version": "2023-06-01", "parallel_tool_calls": false, "system_role": "user"}"#,
    r#"{"blocks": [{"item": {"type": "reasoning", "encrypted_content": "gA"}}, {"text": 4, "phase": "x"}, {"call": true}, {"text": 4}]}"#,
    r#"{"blocks": [{"type": "thinking", "thinking": "hm", "signature": "EqQ"}, {"type": "text", "bytes": 8}, {"type": "tool_use"}]}"#,
    r#"{"reasoning_content": "hm", "content": 7, "role": "user", "tool_calls": []}"#,
    "order:{{context.user_id}}:{{ input.cart.0 }}{{idempotency_key}}{{secret.x}}",
];
