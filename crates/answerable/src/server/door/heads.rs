//! Watches what comes in on a connection for heads that whoever stands before this server might read otherwise.
//!
//! The parser behind this one is strict, but some things it mends and doesn't tell: a length beside `chunked`, a length that
//! is given twice, lines that end without CR. So each head is read here too, by the same parser, and judged. Nothing that
//! follows a head of doubt, or a body in chunks, is read as a request: the connection ends with the answer.

use std::collections::VecDeque;

use super::judge::{Framing, judge};

/// Longest head, in bytes.
pub(super) const LONGEST_HEAD: usize = 32 * 1024;
/// Most headers.
pub(super) const MOST_HEADERS: usize = 100;

/// What was seen of one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What is wrong with it.
    pub(super) fault: Option<&'static str>,
    /// The connection ends with the answer.
    pub(super) is_last: bool,
}

/// A watcher of one connection.
#[derive(Debug, Default)]
pub(super) struct Heads {
    at: At,
    head: Vec<u8>,
    /// Of heads that are complete, in order.
    judged: VecDeque<Verdict>,
    /// Heads so far.
    count: u64,
}

/// Where in the stream of bytes it is.
#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Head,
    /// In a body that goes on for so many bytes.
    Body(u64),
    /// Nothing more is read as a head.
    Rest,
}

impl Heads {
    /// Sees what comes in.
    pub(super) fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.at {
                At::Rest => return,
                At::Body(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = bytes.get(here..).unwrap_or_default();
                    *left -= here as u64;
                    if *left == 0 {
                        self.at = At::Head;
                    }
                }
                At::Head => bytes = self.see_head(bytes),
            }
        }
    }

    /// What was seen of the head of the next request.
    pub(super) fn next(&mut self) -> Option<Verdict> {
        self.judged.pop_front()
    }

    /// Whether a head has begun that isn't complete.
    pub(super) fn is_within(&self) -> bool {
        self.at == At::Head && !self.head.is_empty()
    }

    /// Whether there was a complete head.
    pub(super) fn has_begun(&self) -> bool {
        self.count > 0 || self.at == At::Rest
    }

    /// Sees a part of a head; what is left is behind it.
    fn see_head<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        if !has_blank_line(self.head.get(before.saturating_sub(3)..).unwrap_or_default()) {
            if self.head.len() > LONGEST_HEAD {
                self.end();
            }
            return &[];
        }
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&self.head) {
            Ok(httparse::Status::Complete(length)) => {
                let (framing, fault) = judge(self.head.get(..length).unwrap_or_default(), &request);
                let is_last = fault.is_some() || framing == Framing::Chunked;
                self.at = match framing {
                    _ if is_last => At::Rest,
                    Framing::Length(0) | Framing::Chunked => At::Head,
                    Framing::Length(bytes) => At::Body(bytes),
                };
                self.judged.push_back(Verdict { fault, is_last });
                self.count += 1;
                self.head = Vec::new();
                bytes.get(length.saturating_sub(before)..).unwrap_or_default()
            }
            // Empty lines before it.
            Ok(httparse::Status::Partial) => &[],
            // The parser behind this one refuses it as well.
            Err(_) => {
                self.end();
                &[]
            }
        }
    }

    fn end(&mut self) {
        (self.at, self.head) = (At::Rest, Vec::new());
    }
}

fn has_blank_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|two| two == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Verdict = Verdict { fault: None, is_last: false };
    const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// All verdicts on what comes in, in pieces of so many bytes.
    fn seen(text: &str, piece: usize) -> Vec<Verdict> {
        let mut heads = Heads::default();
        text.as_bytes().chunks(piece).for_each(|piece| heads.see(piece));
        std::iter::from_fn(|| heads.next()).collect()
    }

    #[test]
    fn however_it_comes_in_each_head_is_seen_once_and_bodies_are_none() {
        let body = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 29\r\n\r\n";
        let text = format!("{GET}\r\n{body}GET / HTTP/1.1\r\nHost: y, z\r\n\r{GET}{GET}");
        for piece in 1..=text.len() {
            assert_eq!(seen(&text, piece), [FINE; 4], "in pieces of {piece}");
        }
    }

    #[test]
    fn nothing_is_a_head_behind_one_of_doubt_or_chunks() {
        let last = Verdict { is_last: true, ..FINE };
        let chunked =
            format!("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{GET}");
        let doubtful = format!("POST / HTTP/1.1\nHost: x\r\n\r\n{GET}");
        for piece in [1, 7, 1000] {
            assert_eq!(seen(&chunked, piece), [last]);
            let seen = seen(&doubtful, piece);
            assert!(matches!(seen[..], [Verdict { fault: Some(_), is_last: true }]), "{seen:?}");
        }
    }

    #[test]
    fn what_is_no_head_or_a_huge_one_is_kept_no_longer() {
        for text in ["GET /\r\n\r\n".to_owned(), format!("GET /{}", "a".repeat(2 * LONGEST_HEAD))] {
            let mut heads = Heads::default();
            text.as_bytes().chunks(1000).for_each(|piece| heads.see(piece));
            assert!(heads.next().is_none() && heads.head.capacity() == 0 && !heads.is_within());
        }
    }

    #[test]
    fn it_is_known_how_far_a_connection_is() {
        let mut heads = Heads::default();
        assert!(!heads.is_within() && !heads.has_begun());
        heads.see(b"GET / HTTP/1.1\r\n");
        assert!(heads.is_within() && !heads.has_begun());
        heads.see(b"Host: x\r\n\r\n");
        assert!(!heads.is_within() && heads.has_begun());
    }
}
