//! What is kept of an output that may be endless: its head and its tail.

use std::collections::VecDeque;

/// Head and tail of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes that each of the two may have.
    half: usize,
    seen: u64,
}

impl Kept {
    /// Nothing yet, and never more than `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { half: most / 2, ..Self::default() }
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        // What would be pushed out at once need not come in.
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        self.tail.extend(rest);
        self.tail.drain(..self.tail.len().saturating_sub(self.half));
    }

    /// Bytes that came.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Bytes that are left out between head and tail.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.seen - (self.head.len() + self.tail.len()) as u64
    }

    /// As text: what is no UTF-8 is marked, and what was left out has a line that says so.
    #[must_use]
    pub fn text(&self) -> String {
        let (a, b) = self.tail.as_slices();
        match self.left_out() {
            0 => String::from_utf8_lossy(&[&self.head, a, b].concat()).into_owned(),
            bytes => {
                let tail = [a, b].concat();
                let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
                format!("{head}\n[{bytes} bytes left out]\n{tail}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_whatever_the_pieces() {
        let whole: Vec<u8> = (0..100u8).map(|n| b'a' + n % 26).collect();
        for piece in [1, 3, 7, 50, 100] {
            let mut kept = Kept::new(20);
            whole.chunks(piece).for_each(|bytes| kept.take(bytes));
            assert_eq!(kept.seen(), 100);
            assert_eq!(kept.left_out(), 80);
            assert_eq!(kept.text(), "abcdefghij\n[80 bytes left out]\nmnopqrstuv", "{piece}");
        }
    }

    #[test]
    fn what_fits_is_whole() {
        let mut kept = Kept::new(20);
        kept.take("grün ".as_bytes());
        kept.take(b"0123456789");
        assert_eq!((kept.text().as_str(), kept.left_out()), ("grün 0123456789", 0));
        assert_eq!(Kept::new(20).text(), "");
    }
}
