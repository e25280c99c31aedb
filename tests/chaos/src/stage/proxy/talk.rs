//! What is said on one connection, as far as the proxy has to know.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;

use super::frames::Frame;

/// Shared by the two directions of a connection.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// It listens for notifications.
    pub(super) listens: AtomicBool,
    /// A commit was let through, and nothing of the answer may be.
    pub(super) swallow: AtomicBool,
}

/// What the client has prepared.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// Names of statements that call `commit_run`. The unnamed one has the empty name.
    commits: HashSet<Vec<u8>>,
    /// The same of those that notify.
    notifies: HashSet<Vec<u8>>,
}

/// What a message of the client's asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Whatever.
    Else,
    /// To hear of notifications from here on.
    Listen,
    /// To make something true: a `COMMIT`, or the engine's one write.
    Commit,
    /// To tell others; it names itself in it.
    Notify(Uuid),
}

impl Prepared {
    pub(super) fn read(&mut self, frame: &Frame) -> Asks {
        if frame.is(b'Q') {
            return match frame.text(0) {
                text if begins(text, b"COMMIT") => Asks::Commit,
                text if begins(text, b"LISTEN") => Asks::Listen,
                _ => Asks::Else,
            };
        }
        if frame.is(b'P') {
            self.prepare(frame);
        }
        // Bind names the portal first, then the statement.
        if frame.is(b'B') && self.commits.contains(frame.text(1)) {
            return Asks::Commit;
        }
        if frame.is(b'B') && self.notifies.contains(frame.text(1)) {
            return id_in(&frame.bytes).map_or(Asks::Else, Asks::Notify);
        }
        Asks::Else
    }

    fn prepare(&mut self, frame: &Frame) {
        for (word, names) in [(&b"commit_run("[..], &mut self.commits), (b"pg_notify(", &mut self.notifies)] {
            let name = frame.text(0).to_vec();
            if contains(frame.text(1), word) {
                names.insert(name);
            } else {
                names.remove(&name);
            }
        }
    }
}

impl Talk {
    pub(super) fn is(&self, flag: fn(&Self) -> &AtomicBool) -> bool {
        flag(self).load(Ordering::SeqCst)
    }
}

/// The first 32 hex digits before a space: so a server names itself. What stands before them may look like digits, too.
fn id_in(bytes: &[u8]) -> Option<Uuid> {
    let named = |window: &&[u8]| window[32] == b' ' && window[..32].iter().all(u8::is_ascii_hexdigit);
    Uuid::try_parse(std::str::from_utf8(&bytes.windows(33).find(named)?[..32]).ok()?).ok()
}

fn begins(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::super::frames::Frames;
    use super::*;

    fn asks(messages: &[(u8, &[u8])]) -> Vec<Asks> {
        let (mut frames, mut prepared) = (Frames::of_server(), Prepared::default());
        let read = |(letter, body): &(u8, &[u8])| {
            let length = u32::try_from(body.len() + 4).expect("short");
            frames.more().extend_from_slice(&[&[*letter], &length.to_be_bytes()[..], body].concat());
            prepared.read(&frames.next().expect("legal").expect("whole"))
        };
        messages.iter().map(read).collect()
    }

    #[test]
    fn commits_are_known_in_both_forms() {
        use Asks::{Commit, Else, Listen};
        let parse: (u8, &[u8]) = (b'P', b"s1\0SELECT commit_run($1)\0\0\0");
        let bind: (u8, &[u8]) = (b'B', b"\0s1\0\0\0");
        assert_eq!(asks(&[(b'Q', b"commit\0"), (b'Q', b"LISTEN \"x\"\0")]), [Commit, Listen]);
        assert_eq!(asks(&[bind, parse, bind, (b'B', b"\0s2\0")]), [Else, Else, Commit, Else]);
        let told: (u8, &[u8]) =
            (b'B', b"\0n\0\0\0answerable\0\0\0\x3501a22a9354d4e7038c59bdaa276920fb w p1\0");
        let id = Uuid::from_u128(0x01a2_2a93_54d4_e703_8c59_bdaa_2769_20fb);
        assert_eq!(asks(&[(b'P', b"n\0SELECT pg_notify($1, $2)\0"), told]), [Else, Asks::Notify(id)]);
        assert_eq!(asks(&[parse, (b'P', b"s1\0SELECT 1\0\0\0"), bind]), [Else, Else, Else]);
    }
}
