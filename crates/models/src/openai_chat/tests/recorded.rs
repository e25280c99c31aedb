//! Every recorded exchange of this wire, in pieces of many sizes.

use std::path::Path;

use serde_json::Value;

use super::read;

/// The answers and streams of `tests/exchanges/openai_chat`.
fn recorded() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchanges/openai_chat");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a file");
        let exchange: Value = serde_json::from_str(&text).expect("JSON");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if let Value::Array(lines) = &exchange["stream"] {
            let lines = lines.iter().map(|line| format!("{}\n", line.as_str().expect("a line")));
            all.push((name.clone(), lines.collect()));
        }
        if exchange["answer"].is_object() {
            all.push((name, exchange["answer"].to_string()));
        }
    }
    all
}

#[test]
fn pieces_of_every_size_come_to_the_same() {
    let all = recorded();
    assert!(all.len() > 50, "{}", all.len());
    for (name, text) in all {
        let whole = read(&[text.as_bytes()]);
        for size in [1, 2, 3, 5, 17, 64, 999] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(read(&pieces), whole, "{name} in pieces of {size}");
        }
    }
}
