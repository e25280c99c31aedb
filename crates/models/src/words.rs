//! The words of a reply as they come: fit for storage, and without the provider's own secrets.

use answerable_core::json;
use answerable_core::model::estimate_tokens;
use answerable_ports::DeltaSink;
use answerable_tools::Mask;

/// Text that grows and is passed on.
pub(crate) struct Words<'s> {
    mask: Mask,
    sink: &'s dyn DeltaSink,
    /// What was passed on.
    said: String,
    /// An end that may be the beginning of a secret.
    held: String,
}

impl<'s> Words<'s> {
    pub(crate) fn new(mask: Mask, sink: &'s dyn DeltaSink) -> Self {
        Self { mask, sink, said: String::new(), held: String::new() }
    }

    /// Some more text.
    pub(crate) fn push(&mut self, piece: &str) {
        self.held.push_str(&json::clean_text(piece));
        let masked = self.mask.text(&self.held);
        let ready = masked.len() - self.mask.open_end(&masked);
        self.pass_on(&masked[..ready]);
        self.held = masked[ready..].to_owned();
    }

    /// Tokens of what came so far, estimated.
    pub(crate) fn tokens(&self) -> u64 {
        estimate_tokens(&self.said) + estimate_tokens(&self.held)
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> (String, Mask) {
        let held = std::mem::take(&mut self.held);
        self.pass_on(&held);
        (self.said, self.mask)
    }

    fn pass_on(&mut self, text: &str) {
        if !text.is_empty() {
            self.sink.text(text);
            self.said.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl DeltaSink for Heard {
        fn text(&self, text: &str) {
            self.0.lock().expect("unpoisoned").push(text.to_owned());
        }
    }

    #[test]
    fn a_secret_in_pieces_is_not_passed_on() {
        let whole = "Your key is sk-secret-1, is it? Or sk-sec";
        for size in 1..whole.len() {
            let heard = Heard::default();
            let mut words = Words::new(Mask::new(["sk-secret-1"]), &heard);
            for piece in whole.as_bytes().chunks(size) {
                words.push(std::str::from_utf8(piece).expect("ASCII"));
            }
            let (said, _) = words.finish();
            assert_eq!(said, "Your key is ***, is it? Or sk-sec");
            assert_eq!(heard.0.lock().expect("unpoisoned").concat(), said);
        }
    }

    #[test]
    fn text_is_passed_on_as_it_comes() {
        let heard = Heard::default();
        let mut words = Words::new(Mask::new(["sk-secret-1"]), &heard);
        for piece in ["All ", "", "of\0 it"] {
            words.push(piece);
        }
        assert_eq!(*heard.0.lock().expect("unpoisoned"), ["All ", "of\u{fffd} it"]);
    }
}
