//! From bytes to a reply, in whichever of the two forms they come.

use answerable_core::json;
use answerable_core::model::{ModelReply, Usage};
use serde_json::Value;

use super::assembly::Assembly;
use crate::sse::{SseDecoder, SseEvent, TooLong};
use crate::words::Words;

/// Most bytes of a reply.
const LONGEST_REPLY: usize = 32 << 20;

/// Why there is no whole reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Broken {
    /// Its time was up.
    Late,
    /// It ended early, or is no reply at all.
    Cut(&'static str),
    /// The server sent an error instead: what stood in `error`.
    Error(Value),
}

impl From<TooLong> for Broken {
    fn from(_: TooLong) -> Self {
        Self::Cut("the reply is longer than the server reads")
    }
}

/// Takes the bytes of an answer as they come.
pub(super) struct Reader<'s> {
    assembly: Assembly<'s>,
    form: Form,
    received: usize,
    is_done: bool,
}

enum Form {
    /// Nothing but white space so far.
    Unknown(Vec<u8>),
    /// One JSON object.
    Whole(Vec<u8>),
    /// Events.
    Stream(SseDecoder),
}

impl<'s> Reader<'s> {
    pub(super) fn new(words: Words<'s>) -> Self {
        Self { assembly: Assembly::new(words), form: Form::Unknown(Vec::new()), received: 0, is_done: false }
    }

    /// Takes some bytes; true when the server has said that the reply is done.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<bool, Broken> {
        self.received += bytes.len();
        if self.received > LONGEST_REPLY {
            return Err(TooLong.into());
        }
        if let Form::Unknown(head) = &mut self.form {
            head.extend_from_slice(bytes);
            // A JSON text begins with a brace, a line of a stream never does. The content type is not asked: some lie.
            let mut telling =
                head.iter().filter(|byte| !byte.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(byte));
            let Some(first) = telling.next() else { return Ok(false) };
            let is_whole = *first == b'{';
            let head = std::mem::take(head);
            self.form = if is_whole { Form::Whole(Vec::new()) } else { Form::Stream(SseDecoder::default()) };
            return self.feed_known(&head);
        }
        self.feed_known(bytes)
    }

    fn feed_known(&mut self, bytes: &[u8]) -> Result<bool, Broken> {
        let events = match &mut self.form {
            Form::Stream(decoder) => decoder.push(bytes)?,
            Form::Whole(whole) | Form::Unknown(whole) => {
                whole.extend_from_slice(bytes);
                return Ok(false);
            }
        };
        for event in events {
            self.take(&event)?;
            if self.is_done {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, event: &SseEvent) -> Result<(), Broken> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        if data.is_empty() {
            return Ok(());
        }
        let Ok(object) = json::parse(data) else { return Err(Broken::Cut("a line of the reply is no JSON")) };
        match (&object, event.name.as_str()) {
            (Value::Object(fields), "error") if !fields.contains_key("error") => Err(Broken::Error(object)),
            (Value::Object(_), _) => self.assembly.take(&object),
            _ => Err(Broken::Cut("a line of the reply is no JSON object")),
        }
    }

    /// The connection broke. A stream that said how it finished was whole by then.
    pub(super) fn line_is_lost(&mut self) -> Result<(), Broken> {
        let is_whole = matches!(self.form, Form::Stream(_)) && self.assembly.has_finish_reason();
        if is_whole { Ok(()) } else { Err(Broken::Cut("the connection was cut within the reply")) }
    }

    /// Tokens as far as they were told.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.assembly.usage()
    }

    /// The reply, if all of it came.
    pub(super) fn finish(mut self) -> Result<ModelReply, Broken> {
        match std::mem::replace(&mut self.form, Form::Unknown(Vec::new())) {
            Form::Unknown(_) => return Err(Broken::Cut("the answer is empty")),
            Form::Whole(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let object = json::parse(text.trim_start_matches('\u{feff}')).ok().filter(Value::is_object);
                let Some(object) = object else { return Err(Broken::Cut("the answer is no JSON object")) };
                if object["error"].is_null() && object.get("choices").is_none() {
                    return Err(Broken::Cut("the answer is no chat completion"));
                }
                self.assembly.take(&object)?;
            }
            Form::Stream(mut decoder) => {
                if !self.is_done
                    && let Some(event) = decoder.finish()
                {
                    self.take(&event)?;
                }
                if !self.is_done && !self.assembly.has_finish_reason() {
                    return Err(Broken::Cut("the reply ended early"));
                }
            }
        }
        self.assembly.finish()
    }
}

#[cfg(test)]
mod tests;
