//! Server-sent events, as far as Answerable sends them.

/// An event, complete.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The stored event's sequence number; live-only events have none.
    pub(super) id: Option<u64>,
    pub(super) data: String,
}

/// Puts events together out of the pieces in which a stream arrives.
#[derive(Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
    id: Option<u64>,
    data: String,
}

impl Frames {
    /// Takes a piece and gives the events that it completes.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<Frame> {
        self.buffer.extend_from_slice(piece);
        let mut frames = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            frames.extend(self.line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n'])));
        }
        frames
    }

    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let (id, data) = (self.id.take(), std::mem::take(&mut self.data));
            return (!data.is_empty()).then_some(Frame { id, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = value.parse().ok(),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments keep the line open; `event` and `retry` say nothing that `data` doesn't.
            _ => {}
        }
        None
    }
}
