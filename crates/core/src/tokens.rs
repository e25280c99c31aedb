//! How many tokens a text has: counted as the model's own tokenizer does where it is known, else estimated on the safe side.

use serde::{Deserialize, Serialize};

use crate::attachments::is_text;
use crate::message::{Attachment, AttachmentSource, Message, Part};
use crate::model::estimate_tokens;

/// Bytes of a text that are counted; a longer one is estimated.
const MAX_COUNTED: usize = 1024 * 1024;
/// What surrounds a message or a call on the wire.
const FRAME: u64 = 4;
/// A picture, whatever its size: vendors scale it down first. Anthropic's largest takes about 1,600 tokens, OpenAI's tiles
/// at high detail mostly less; small models of theirs that charge many times as much are corrected by what they tell.
const IMAGE: u64 = 1_600;
/// A page of a document: vendors say 1,500 to 3,000 tokens of text a page, and show the page as a picture besides.
const PAGE: u64 = 3_000;
/// Bytes of a document that is no text, a token: a page of print takes some 30 kB.
const BYTES_A_TOKEN: u64 = 10;
/// Pages that a document at an address is taken to have.
const PAGES_ELSEWHERE: u64 = 5;

/// What tokens are counted with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Counter {
    /// Bytes and words, on the safe side.
    #[default]
    #[serde(rename = "estimate")]
    Estimate,
    /// The tokenizer of OpenAI's models since GPT-4o.
    #[serde(rename = "o200k_base")]
    O200k,
}

impl Counter {
    /// The one for a model, by the provider's name for it. Names may say whose it is (`openai/gpt-4o`), or what it was
    /// made of (`ft:gpt-4o:…`).
    pub fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let name = name.strip_prefix("ft:").unwrap_or(name).to_ascii_lowercase();
        let begins = |with: &[&str]| with.iter().any(|prefix| name.starts_with(prefix));
        let mut chars = name.chars();
        let is_reasoner = chars.next() == Some('o') && chars.next().is_some_and(|c| c.is_ascii_digit());
        if is_reasoner || begins(&["gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "chatgpt-4o"]) {
            Self::O200k
        } else {
            Self::Estimate
        }
    }

    /// As manifests show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Estimate => "estimate",
            Self::O200k => "o200k_base",
        }
    }

    /// Tokens of a text. The work is linear, and bounded. The tokenizer is read when it is used first: that takes some
    /// 70 ms, and 70 MB for good. The one of GPT-4 and older isn't worth as much again.
    pub fn text(self, text: &str) -> u64 {
        match self {
            Self::O200k if text.len() <= MAX_COUNTED => bpe_openai::o200k_base().count(text) as u64,
            Self::O200k | Self::Estimate => estimate_tokens(text),
        }
    }

    /// Tokens of a message, with what surrounds it on the wire. Reasoning that goes back to its provider isn't counted:
    /// what becomes of it there shows in the provider's own counts.
    pub fn message(self, message: &Message) -> u64 {
        let calls = message
            .tool_calls
            .iter()
            .map(|call| 2 * FRAME + self.text(&call.name) + self.text(&call.arguments));
        FRAME + self.text(&message.content) + calls.sum::<u64>() + attached(&message.parts)
    }
}

/// Tokens of what is attached; the text among the pieces is the message's own.
fn attached(parts: &[Part]) -> u64 {
    let tokens = |part: &Part| match part {
        Part::Text(_) => 0,
        Part::Image(_) => IMAGE,
        Part::File(file) => document(file),
    };
    parts.iter().map(tokens).sum()
}

fn document(file: &Attachment) -> u64 {
    match &file.source {
        AttachmentSource::Artifact { bytes, .. } if is_text(&file.media_type) => bytes.div_ceil(4),
        AttachmentSource::Artifact { bytes, .. } => (bytes / BYTES_A_TOKEN).max(PAGE),
        AttachmentSource::Url(_) => PAGES_ELSEWHERE * PAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ArtifactId, MessageId};
    use crate::message::Role;
    use uuid::Uuid;

    #[test]
    fn models_are_known_by_their_names() {
        for (model, counter) in [
            ("gpt-4o-mini", "o200k_base"),
            ("openai/gpt-5.1", "o200k_base"),
            ("ft:gpt-4.1-2025-04-14:acme::x", "o200k_base"),
            ("o3-mini", "o200k_base"),
            ("O1", "o200k_base"),
            ("gpt-4-turbo", "estimate"),
            ("gpt-2", "estimate"),
            ("omni", "estimate"),
            ("claude-sonnet-4-5", "estimate"),
            ("", "estimate"),
        ] {
            assert_eq!(Counter::of(model).as_str(), counter, "{model}");
            let written = serde_json::to_value(Counter::of(model)).expect("JSON");
            assert_eq!(written, counter, "as it is shown, so it is stored");
        }
    }

    #[test]
    fn texts_are_counted_as_the_models_do() {
        // Counts as OpenAI's own tokenizer gives them.
        for (text, tokens) in [("hello world", 2), ("tiktoken is great!", 6), ("", 0), ("<|endoftext|>", 7)] {
            assert_eq!(Counter::O200k.text(text), tokens, "{text}");
        }
        assert_eq!(Counter::Estimate.text("hello world"), 3);
    }

    /// With a tokenizer whose work is not linear this takes hours.
    #[test]
    fn hostile_texts_are_counted_too() {
        for text in ["a".repeat(300_000), " ".repeat(300_000), "\u{1F600}e\u{301}".repeat(40_000)] {
            assert!(Counter::O200k.text(&text) > 0);
        }
        let huge = "ab ".repeat(MAX_COUNTED / 2);
        assert_eq!(Counter::O200k.text(&huge), estimate_tokens(&huge), "what is huge is estimated");
    }

    #[test]
    fn what_is_attached_counts() {
        let file = |media_type: &str, source| {
            Part::File(Attachment { media_type: media_type.into(), name: None, source })
        };
        let kept = |bytes| AttachmentSource::Artifact { id: ArtifactId(Uuid::nil()), bytes };
        let picture = Part::Image(Attachment {
            media_type: "image/png".into(),
            name: None,
            source: AttachmentSource::Url("https://example.com/a.png".into()),
        });
        let elsewhere = file("", AttachmentSource::Url("https://example.com/a.pdf".into()));
        for (part, tokens) in [
            (Part::Text("no more than the content".into()), 0),
            (picture, 1_600),
            (file("text/csv", kept(4_001)), 1_001),
            (file("application/json", kept(4_001)), 1_001),
            (file("application/pdf", kept(10)), 3_000),
            (file("application/pdf", kept(1_000_000)), 100_000),
            (elsewhere, 15_000),
        ] {
            let bare = Message::text(MessageId(Uuid::nil()), 1, Role::User, "look");
            let message = Message { parts: vec![part], ..bare.clone() };
            let count = Counter::Estimate;
            assert_eq!(count.message(&message) - count.message(&bare), tokens, "{message:?}");
        }
    }
}
