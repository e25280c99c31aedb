//! Text as it may be stored and shown.

/// Replaces NUL by U+FFFD: PostgreSQL and some providers take none.
pub fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The first `max_chars` code points of `text`.
pub fn head(text: &str, max_chars: usize) -> &str {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Number of code points, the contract's "characters".
pub fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_between_characters() {
        assert_eq!(head("ab😀c", 3), "ab😀");
        assert_eq!(head("é", 5), "é");
        assert_eq!(head("é", 0), "");
        assert_eq!(chars("ab😀c"), 4);
    }
}
