//! From bytes to pieces of a reply, in whichever of the two forms they come: one JSON object, or a stream of events.
//! Either is taken, whatever was asked for: servers differ.

use answerable_core::json;
use answerable_core::model::{ModelReply, Usage};
use answerable_tools::sse::{SseDecoder, SseEvent, TooLong};
use serde_json::Value;

use crate::assembly::{Assembly, Broken, Told};

/// Most bytes of a streamed reply.
pub(crate) const LONGEST_REPLY: usize = 32 << 20;
/// Most bytes of one that comes whole.
const LONGEST_WHOLE: usize = 16 << 20;
/// Most commas and brackets of one JSON text: each may stand for a value, which takes many times its bytes when it is read.
const MOST_VALUES: usize = 500_000;

impl From<TooLong> for Broken {
    fn from(_: TooLong) -> Self {
        Self::Cut("the reply is longer than the server reads")
    }
}

/// Takes the bytes of an answer as they come.
pub(crate) struct Reader<A> {
    assembly: A,
    form: Form,
    received: usize,
    is_done: bool,
}

enum Form {
    /// Nothing but white space so far.
    Unknown,
    /// One JSON object.
    Whole(Vec<u8>),
    /// Events.
    Stream(SseDecoder),
}

impl<A: Assembly> Reader<A> {
    pub(crate) fn new(assembly: A) -> Self {
        Self { assembly, form: Form::Unknown, received: 0, is_done: false }
    }

    /// Takes some bytes, and says what they told.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Told, Broken> {
        self.received += bytes.len();
        if self.received > LONGEST_REPLY {
            return Err(TooLong.into());
        }
        if !matches!(self.form, Form::Unknown) {
            return self.feed_known(bytes);
        }
        // A JSON text begins with a brace, a line of a stream never does. The content type is not asked: some lie. White
        // space and a mark of the byte order before either say nothing.
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(byte);
        let Some(begin) = bytes.iter().position(|byte| !is_blank(byte)) else { return Ok(Told::Nothing) };
        let is_whole = bytes[begin] == b'{';
        self.form = if is_whole { Form::Whole(Vec::new()) } else { Form::Stream(SseDecoder::default()) };
        self.feed_known(&bytes[begin..])
    }

    fn feed_known(&mut self, bytes: &[u8]) -> Result<Told, Broken> {
        let events = match &mut self.form {
            Form::Stream(decoder) => decoder.push(bytes)?,
            Form::Unknown => return Ok(Told::Nothing),
            Form::Whole(whole) => {
                if whole.len() + bytes.len() > LONGEST_WHOLE {
                    return Err(TooLong.into());
                }
                whole.extend_from_slice(bytes);
                return Ok(Told::Piece);
            }
        };
        let mut told = Told::Nothing;
        for event in events {
            match self.take(&event)? {
                Told::End => return Ok(Told::End),
                Told::Piece => told = Told::Piece,
                Told::Nothing => {}
            }
        }
        Ok(told)
    }

    fn take(&mut self, event: &SseEvent) -> Result<Told, Broken> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Told::Nothing);
        }
        let told = if data == "[DONE]" { Told::End } else { self.take_data(&event.name, data)? };
        self.is_done |= told == Told::End;
        Ok(told)
    }

    fn take_data(&mut self, name: &str, data: &str) -> Result<Told, Broken> {
        if has_too_many_values(data.as_bytes()) {
            return Err(TooLong.into());
        }
        let Ok(object) = json::parse(data) else { return Err(Broken::Cut("a line of the reply is no JSON")) };
        match (&object, name) {
            (Value::Object(fields), "error") if !fields.contains_key("error") => Err(Broken::Error(object)),
            (Value::Object(_), _) => self.assembly.take_event(name, &object),
            _ => Err(Broken::Cut("a line of the reply is no JSON object")),
        }
    }

    /// The connection broke. A stream that said how it ended was whole by then.
    pub(crate) fn line_is_lost(&self) -> Result<(), Broken> {
        let is_whole = matches!(self.form, Form::Stream(_)) && self.assembly.has_ended();
        if is_whole { Ok(()) } else { Err(Broken::Cut("the connection was cut within the reply")) }
    }

    /// Tokens as far as they were told, and of what was said, estimated.
    pub(crate) fn tokens(&self) -> (Option<Usage>, u64) {
        (self.assembly.usage(), self.assembly.said_tokens())
    }

    /// Nothing more comes: the last event may have had no end of its own, and a whole answer is read.
    pub(crate) fn end(&mut self) -> Result<(), Broken> {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => Err(Broken::Cut("the answer is empty")),
            Form::Whole(bytes) if has_too_many_values(&bytes) => Err(TooLong.into()),
            Form::Whole(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let object = json::parse(text.trim_start_matches('\u{feff}')).ok().filter(Value::is_object);
                let object = object.ok_or(Broken::Cut("the answer is no JSON object"))?;
                self.assembly.take_whole(&object)
            }
            Form::Stream(mut decoder) => {
                if !self.is_done
                    && let Some(event) = decoder.finish()
                {
                    match self.take(&event) {
                        // A line that was cut after the reply had ended takes nothing of it away.
                        Err(Broken::Cut(_)) if self.assembly.has_ended() => {}
                        taken => drop(taken?),
                    }
                }
                let is_whole = self.is_done || self.assembly.has_ended();
                if is_whole { Ok(()) } else { Err(Broken::Cut("the reply ended early")) }
            }
        }
    }

    /// The reply, after [`Reader::end`].
    pub(crate) fn finish(self) -> Result<ModelReply, Broken> {
        self.assembly.finish()
    }
}

/// Whether a JSON text may hold more values than are read.
fn has_too_many_values(text: &[u8]) -> bool {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MOST_VALUES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes anything, and ends with an event that says so.
    #[derive(Default)]
    struct Any {
        has_ended: bool,
    }

    impl Assembly for Any {
        fn take_event(&mut self, _: &str, object: &Value) -> Result<Told, Broken> {
            self.has_ended |= object["ends"] == true;
            Ok(Told::Piece)
        }

        fn take_whole(&mut self, _: &Value) -> Result<(), Broken> {
            Ok(())
        }

        fn has_ended(&self) -> bool {
            self.has_ended
        }

        fn usage(&self) -> Option<Usage> {
            None
        }

        fn said_tokens(&self) -> u64 {
            0
        }

        fn finish(self) -> Result<ModelReply, Broken> {
            Err(Broken::Cut("the test is about its coming"))
        }
    }

    fn came(pieces: &[&[u8]]) -> Result<(), Broken> {
        let mut reader = Reader::new(Any::default());
        for piece in pieces {
            if reader.feed(piece)? == Told::End {
                break;
            }
        }
        reader.end()
    }

    #[test]
    fn what_is_cut_after_the_end_takes_nothing_away() {
        let ended = b"data: {\"ends\": true}\n\n".as_slice();
        for rest in [b"".as_slice(), b"data: {\"usa", b"data: [DO", b"da", b": comm", b"event: x\ndata: {"] {
            assert_eq!(came(&[ended, rest]), Ok(()), "{}", String::from_utf8_lossy(rest));
            assert!(came(&[b"data: {}\n\n", rest]).is_err(), "not ended: {}", String::from_utf8_lossy(rest));
        }
        assert!(came(&[ended, b"data: {\"usa\n\n"]).is_err(), "a whole line that is no JSON");
        assert_eq!(
            came(&[b"\xef\xbb", b"\xbf \n\n  ", ended]),
            Ok(()),
            "white space and a mark of the byte order"
        );
        assert_eq!(came(&[&[b"\n   ", ended].concat()]), Ok(()), "the same in one piece");
    }

    #[test]
    fn white_space_without_end_is_not_kept() {
        let mut reader = Reader::new(Any::default());
        let blank = [b'\n'; 1 << 12];
        let fed =
            (0..LONGEST_REPLY / blank.len()).map(|_| reader.feed(&blank)).collect::<Result<Vec<_>, _>>();
        assert!(fed.is_ok_and(|told| told.iter().all(|told| *told == Told::Nothing)));
        assert!(matches!(reader.form, Form::Unknown));
        assert!(reader.feed(&blank).is_err(), "and it has an end");
    }

    #[test]
    fn a_text_of_many_values_is_not_read() {
        let list = |count: usize| format!("{{\"x\": [0{}]}}", ",0".repeat(count));
        let (few, many) = (list(1_000), list(MOST_VALUES));
        assert_eq!(came(&[few.as_bytes()]), Ok(()));
        assert!(came(&[many.as_bytes()]).is_err());
        let event = |text: &str| format!("data: {text}\n\ndata: [DONE]\n\n");
        assert_eq!(came(&[event(&few).as_bytes()]), Ok(()));
        assert!(came(&[event(&many).as_bytes()]).is_err());
        let long = format!("{{\"x\": \"{}\"}}", "a".repeat(LONGEST_WHOLE));
        assert!(came(&[long.as_bytes()]).is_err(), "too long in one piece");
    }
}
