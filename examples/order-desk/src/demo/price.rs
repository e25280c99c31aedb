//! Money and counts, for people.

/// Micro-dollars as dollars.
pub(super) fn dollars(microusd: i64) -> String {
    format!("${}.{:06}", microusd / 1_000_000, microusd % 1_000_000)
}

/// `1 step`, `2 steps`.
pub(super) fn counted(count: i64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The start of a text, on one line.
pub(super) fn excerpt(text: &str, chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= chars {
        line
    } else {
        let kept: String = line.chars().take(chars.saturating_sub(1)).collect();
        format!("{kept}…")
    }
}
