//! Words of others, short enough for a line.

use serde_json::Value;

/// Longest text that a finding repeats, in characters.
const LONGEST: usize = 200;

/// A text in quotes, on one line, its end left out where it is long.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", cut(text))
}

/// A value on one line.
pub(crate) fn json(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Names with commas between them; `none`, if there are none.
pub(crate) fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let told = quoted(&"ä".repeat(500));
        assert_eq!(told.chars().count(), LONGEST + 3);
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
    }
}
