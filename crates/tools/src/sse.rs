//! Server-sent events out of bytes that come in any pieces.

/// Most bytes of one event, where nothing else is said.
const LONGEST_EVENT: usize = 8 << 20;
/// Longest id of an event that is kept, in bytes.
const LONGEST_ID: usize = 1024;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its `event` field; empty where it has none.
    pub name: String,
    /// Its data; several lines of it are joined by line feeds.
    pub data: String,
}

/// An event is over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// The decoder: comments, all three kinds of line ends, fields with and without a space after the colon.
#[derive(Debug)]
pub struct SseDecoder {
    longest: usize,
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR, so that an LF next belongs to it.
    after_cr: bool,
    begun: bool,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::within(LONGEST_EVENT)
    }
}

impl SseDecoder {
    /// A decoder for events of at most `longest` bytes.
    #[must_use]
    pub fn within(longest: usize) -> Self {
        Self {
            longest,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            begun: false,
            last_id: None,
            retry_ms: None,
        }
    }

    /// The newest `id` of an event, which says from where the stream can be taken up again.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long to wait before the stream is taken up again, in milliseconds, if the sender said so.
    #[must_use]
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// A decoder for the stream that takes this one up; it remembers what this one was told for that.
    #[must_use]
    pub fn next_stream(self) -> Self {
        Self { last_id: self.last_id, retry_ms: self.retry_ms, ..Self::within(self.longest) }
    }

    /// Takes some bytes and gives the events that they end.
    ///
    /// # Errors
    /// An event is over the limit.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        let mut events = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let belongs_to_cr = self.after_cr && end == 0 && bytes[0] == b'\n';
            self.after_cr = bytes[end] == b'\r';
            if !belongs_to_cr {
                self.grow(&bytes[..end])?;
                events.extend(self.end_line());
            }
            bytes = &bytes[end + 1..];
        }
        if !bytes.is_empty() {
            self.after_cr = false;
            self.grow(bytes)?;
        }
        Ok(events)
    }

    /// What the end of the stream ends: some senders leave out the last empty line.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_line()
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + bytes.len() > self.longest {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let taken = std::mem::take(&mut self.line);
        let mut line = taken.as_slice();
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = value.to_vec(),
            b"id" => self.keep_id(value),
            b"retry" => self.keep_retry(value),
            // Comments, and whatever comes later.
            _ => {}
        }
        None
    }

    fn keep_id(&mut self, value: &[u8]) {
        let fits = value.len() <= LONGEST_ID && !value.contains(&0);
        if let Some(id) = std::str::from_utf8(value).ok().filter(|_| fits) {
            // An empty one takes back what was said.
            self.last_id = (!id.is_empty()).then(|| id.to_owned());
        }
    }

    fn keep_retry(&mut self, value: &[u8]) {
        let text = std::str::from_utf8(value).unwrap_or_default();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            self.retry_ms = text.parse().ok();
        }
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        let event = SseEvent {
            name: String::from_utf8_lossy(&name).into_owned(),
            data: String::from_utf8_lossy(&data).into_owned(),
        };
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::default();
        let mut events: Vec<SseEvent> = Vec::new();
        for piece in pieces {
            events.extend(decoder.push(piece).expect("short"));
        }
        events.extend(decoder.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    #[test]
    fn all_the_ways_to_write_an_event() {
        let text = "\u{feff}: hello\r\n\r\ndata: one\r\n\r\nevent:ping\rdata:two\rdata: three 🦊\r\rid: 7\nretry: 9\n\n\
                    data\n\nunknown: x\ndata:  four\n\n:\n\ndata: last";
        let wanted = [("", "one"), ("ping", "two\nthree 🦊"), ("", ""), ("", " four"), ("", "last")];
        let wanted = wanted.map(|(name, data)| (name.to_owned(), data.to_owned()));
        let bytes = text.as_bytes();
        assert_eq!(decode(&[bytes]), wanted);
        for at in 0..=bytes.len() {
            assert_eq!(decode(&[&bytes[..at], &bytes[at..]]), wanted, "cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single), wanted);
    }

    #[test]
    fn ids_and_pauses_are_kept() {
        let mut decoder = SseDecoder::default();
        for (text, id, pause) in [
            ("data: x\n\n", None, None),
            ("id: 7\nretry: 250\ndata:\n\n", Some("7"), Some(250)),
            (": no news\nretry: soon\nretry: \n\n", Some("7"), Some(250)),
            ("id: a\0b\n\n", Some("7"), Some(250)),
            ("id\n\n", None, Some(250)),
        ] {
            decoder.push(text.as_bytes()).expect("short");
            assert_eq!((decoder.last_id(), decoder.retry_ms()), (id, pause), "{text:?}");
        }
    }

    #[test]
    fn an_event_has_a_limit() {
        let mut decoder = SseDecoder::default();
        let piece = vec![b'x'; 1 << 20];
        assert_eq!(decoder.push(b"data: "), Ok(vec![]));
        assert!((0..7).all(|_| decoder.push(&piece).is_ok()));
        assert_eq!(decoder.push(&piece), Err(TooLong));
        let mut lines = SseDecoder::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        assert!((0..7).all(|_| lines.push(&line).is_ok()));
        assert_eq!(lines.push(&line), Err(TooLong));
    }
}
