//! When the arguments of a call are whole, told as their pieces come.

use std::cell::OnceCell;

use serde_json::Value;

/// Follows a JSON text as it grows. Every byte is looked at once, and a text that may be whole is parsed once, however
/// often it is asked: a provider could hold a thread otherwise.
#[derive(Debug, Default)]
pub(super) struct Whole {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The outermost bracket was closed.
    is_closed: bool,
    /// It can't become whole any more.
    is_spoiled: bool,
    is_object: OnceCell<bool>,
}

impl Whole {
    /// Some more of the text.
    pub(super) fn take(&mut self, more: &str) {
        more.bytes().for_each(|byte| self.step(byte));
    }

    fn step(&mut self, byte: u8) {
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' if self.in_string => self.in_string = false,
            _ if self.in_string => {}
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ if self.is_closed => self.is_spoiled = true,
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.is_spoiled |= self.depth == 0;
                self.depth = self.depth.saturating_sub(1);
                self.is_closed = self.depth == 0;
            }
            _ => {}
        }
    }

    /// Whether `text`, which is all that was taken, is a whole object, to which nothing can be added.
    pub(super) fn is_object(&self, text: &str) -> bool {
        let parses = || text.trim_end().ends_with('}') && serde_json::from_str::<Value>(text).is_ok();
        self.is_closed && !self.is_spoiled && *self.is_object.get_or_init(parses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_where_a_parser_says_so() {
        for text in [
            r#"{"a": "}\"{", "b": [{}, "\\"]} "#,
            "{} \n\t",
            "{}{}",
            "{}\u{a0}",
            "x{}",
            "{]}",
            "[{}]",
            "}{}",
            r#""{}""#,
            r#"{"a": 1}x"#,
            "{\"ü\": \"🦊}",
            "",
        ] {
            let mut whole = Whole::default();
            for (at, c) in text.char_indices() {
                let so_far = &text[..at + c.len_utf8()];
                whole.take(&text[at..at + c.len_utf8()]);
                let parsed = serde_json::from_str::<Value>(so_far);
                assert_eq!(whole.is_object(so_far), parsed.is_ok_and(|value| value.is_object()), "{so_far}");
            }
        }
    }
}
