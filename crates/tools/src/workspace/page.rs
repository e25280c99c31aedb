//! Parts of long texts, small enough to be shown.

/// Lines of a text, numbered, as many as fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The lines with their numbers.
    pub(super) shown: String,
    /// The last line that is shown; the one before the first where there is none.
    pub(super) last: usize,
    /// Lines that the text has.
    pub(super) of: usize,
    /// Code points of the last line that are left out.
    pub(super) cut: usize,
}

/// Lines of `text` from line `from` (1 is the first), at most `lines` of them and within `max_chars` code points. A first
/// line that is too long for that is cut.
pub(super) fn page(text: &str, from: usize, lines: usize, max_chars: usize) -> Page {
    let (mut shown, mut chars, mut cut) = (String::new(), 0, 0);
    let (mut last, mut of, mut is_full) = (from.saturating_sub(1), 0, false);
    for (number, line) in (1..).zip(text.lines()) {
        of = number;
        if number < from || number - from >= lines || is_full {
            continue;
        }
        let numbered = format!("{number:>6}\t{line}\n");
        let length = numbered.chars().count();
        if chars + length <= max_chars {
            shown.push_str(&numbered);
            (chars, last) = (chars + length, number);
            continue;
        }
        is_full = true;
        if number == from {
            shown.extend(numbered.chars().take(max_chars));
            (last, cut) = (number, length - max_chars.min(length));
        }
    }
    Page { shown, last, of, cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_fits() {
        let text = "one\ntwo\nthree\n";
        let all = page(text, 1, 10, 1000);
        assert_eq!(all.shown, "     1\tone\n     2\ttwo\n     3\tthree\n");
        assert_eq!((all.last, all.of, all.cut), (3, 3, 0));
        let part = page(text, 2, 1, 1000);
        assert_eq!((part.shown.as_str(), part.last, part.of), ("     2\ttwo\n", 2, 3));
        // Eleven characters a line: two lines don't fit into twenty.
        let small = page(text, 1, 10, 20);
        assert_eq!((small.shown.as_str(), small.last, small.of), ("     1\tone\n", 1, 3));
        let tiny = page(text, 3, 10, 9);
        assert_eq!((tiny.shown.as_str(), tiny.last, tiny.cut), ("     3\tth", 3, 4));
        let beyond = page(text, 9, 10, 20);
        assert_eq!((beyond.shown.as_str(), beyond.last, beyond.of), ("", 8, 3));
        assert_eq!(page("", 1, 10, 10), Page { shown: String::new(), last: 0, of: 0, cut: 0 });
    }
}
