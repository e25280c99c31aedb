//! Lines that are close to a text which stands nowhere, so that the model finds what it meant.

use std::collections::HashSet;
use std::fmt::Write as _;

use answerable_core::text;

/// Lines that are shown.
const SHOWN: usize = 3;
/// Characters of each.
const LINE_CHARS: usize = 200;
/// Words of fewer letters say little.
const SHORTEST: usize = 3;
/// Bytes of a file that are compared.
const COMPARED: usize = 1 << 20;

/// Says what `old` may have been meant to be; nothing where no line comes near.
pub(super) fn near(present: &str, old: &str) -> String {
    if present.contains("\r\n") && !old.contains('\r') && present.replace("\r\n", "\n").contains(old) {
        return " Its lines end with a carriage return and a line feed, and old_text has line feeds alone."
            .into();
    }
    let mut lines = nearest(present, old);
    if lines.is_empty() {
        return String::new();
    }
    lines.sort_unstable();
    let mut words = String::from(" Lines that come near:");
    for (number, line) in lines {
        let shown = text::head(line, LINE_CHARS);
        // Writing into a string can't fail.
        let _ = write!(words, "\n{number:>6}\t{shown}");
    }
    words
}

/// The lines that share most of their words with the first line of `old` that has any, at least half of them.
fn nearest<'p>(present: &'p str, old: &str) -> Vec<(usize, &'p str)> {
    let Some(wanted) = old.lines().map(words).find(|words| !words.is_empty()) else { return Vec::new() };
    let compared = &present[..present.floor_char_boundary(COMPARED)];
    let mut scored: Vec<(usize, usize, &str)> = (1..)
        .zip(compared.lines())
        .map(|(number, line)| (words(line).intersection(&wanted).count(), number, line))
        .filter(|(shared, ..)| *shared > 0 && shared * 2 >= wanted.len())
        .collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.into_iter().take(SHOWN).map(|(_, number, line)| (number, line)).collect()
}

fn words(line: &str) -> HashSet<&str> {
    let parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    parts.filter(|word| word.chars().count() >= SHORTEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_share_words_are_shown() {
        let file = "fn open() {}\nlet  door = open(key);\nlet lamp = 1;\n\nreturn door;\n";
        let words = near(file, "let door = open(the_key);");
        assert!(words.contains("     2\tlet  door = open(key);") && !words.contains("lamp"), "{words}");
        assert_eq!(near(file, "nothing of it"), "");
        assert_eq!(near(file, "{ ; }"), "");
        assert!(near("a\r\nb\r\n", "a\nb").contains("carriage return"));
    }

    #[test]
    fn what_is_shown_is_short() {
        let file = format!("some words {}\n", "x".repeat(5000)).repeat(1000);
        assert!(near(&file, "some words here").chars().count() < 1000);
    }
}
