//! Server-sent events, as they come in over a stream of bytes.

/// Longest event that is taken, in bytes.
const LONGEST: usize = 8 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `id` line, if the event had one.
    pub(crate) id: Option<String>,
    /// The `data` lines.
    pub(crate) data: String,
}

/// An event over the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Puts events together out of chunks that may be cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    buffer: Vec<u8>,
    event: SseEvent,
    has_data: bool,
}

impl SseReader {
    /// Takes the next bytes; returns the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.buffer.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.buffer);
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line));
            events.extend(self.line(&line));
            if self.event.data.len() > LONGEST {
                return Err(TooLong);
            }
        }
        self.buffer.extend_from_slice(rest);
        if self.buffer.len() > LONGEST { Err(TooLong) } else { Ok(events) }
    }

    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            // The event's type stands in its data too; comments and retry times are of no use here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "retry: 2000\n\n: still here\n\nid: 1\r\nevent: a\r\ndata: {\"x\":\"é\"}\r\n\r\n\
                          event: live\ndata:one\ndata: two\n\nid: 3\ndata: cut";

    #[test]
    fn events_are_whole_wherever_the_chunks_are_cut() {
        let event =
            |id: Option<&str>, data: &str| SseEvent { id: id.map(str::to_owned), data: data.to_owned() };
        let expected = [event(Some("1"), "{\"x\":\"é\"}"), event(None, "one\ntwo")];
        for size in 1..STREAM.len() {
            let mut reader = SseReader::default();
            let chunks = STREAM.as_bytes().chunks(size);
            let events: Vec<SseEvent> = chunks.flat_map(|chunk| reader.feed(chunk).expect("short")).collect();
            assert_eq!(events, expected, "in chunks of {size}");
        }
    }

    #[test]
    fn an_endless_line_is_given_up() {
        let mut reader = SseReader::default();
        let chunk = vec![b'x'; LONGEST / 2];
        reader.feed(&chunk).expect("fits");
        reader.feed(&chunk).expect("fits");
        assert_eq!(reader.feed(b"x"), Err(TooLong));
    }
}
