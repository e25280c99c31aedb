//! Messages of PostgreSQL's wire, cut out of a stream of bytes: a letter, a length, a body. The first message of a
//! client has no letter.

use bytes::{Buf as _, Bytes, BytesMut};

/// Longest message that is taken; the service's are far below.
const LONGEST: usize = 256 << 20;

/// Bytes that came, and are not whole messages yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: BytesMut,
    /// The next message has no letter.
    bare: bool,
}

/// A whole message with its head.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    /// `None` for the first message of a client.
    letter: Option<u8>,
}

/// A stream that isn't PostgreSQL's.
#[derive(Debug)]
pub(super) struct Garbled;

impl Frames {
    /// Of a client: it begins with a message without a letter.
    pub(super) fn of_client() -> Self {
        Self { bytes: BytesMut::new(), bare: true }
    }

    /// Of a server.
    pub(super) fn of_server() -> Self {
        Self::default()
    }

    /// Where to read more into.
    pub(super) fn more(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// The next whole message.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Garbled> {
        let head = usize::from(!self.bare);
        if self.bytes.len() < head + 4 {
            return Ok(None);
        }
        let mut length = &self.bytes[head..head + 4];
        let length = length.get_u32() as usize;
        if !(4..LONGEST).contains(&length) {
            return Err(Garbled);
        }
        if self.bytes.len() < head + length {
            return Ok(None);
        }
        let bytes = self.bytes.split_to(head + length).freeze();
        let letter = (!self.bare).then(|| bytes[0]);
        self.bare = false;
        Ok(Some(Frame { bytes, letter }))
    }
}

impl Frame {
    pub(super) fn is(&self, letter: u8) -> bool {
        self.letter == Some(letter)
    }

    /// What stands after letter and length.
    fn body(&self) -> &[u8] {
        &self.bytes[4 + usize::from(self.letter.is_some())..]
    }

    /// The n-th of the texts, each ended by a zero, with which the body begins.
    pub(super) fn text(&self, n: usize) -> &[u8] {
        self.body().split(|byte| *byte == 0).nth(n).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_their_ends() {
        let mut frames = Frames::of_client();
        frames.more().extend_from_slice(b"\0\0\0\x08\0\x03\0\0Q\0\0\0\x0bCOMM");
        assert!(frames.next().expect("legal").is_some_and(|first| first.letter.is_none()));
        assert!(frames.next().expect("legal").is_none());
        frames.more().extend_from_slice(b"IT\0P\0\0");
        let commit = frames.next().expect("legal").expect("whole");
        assert!(commit.is(b'Q') && commit.text(0) == b"COMMIT");
        assert!(frames.next().expect("legal").is_none());
    }

    #[test]
    fn a_length_out_of_the_question_is_garbled() {
        let mut frames = Frames::of_server();
        frames.more().extend_from_slice(b"R\0\0\0\x03");
        assert!(frames.next().is_err());
    }
}
