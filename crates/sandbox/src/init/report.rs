//! What process 1 says of itself: a line when it is confined and waits to be told to go on, and one more if it then can't.

/// What the first line begins with; how far Landlock went follows.
const READY: &str = "ready ";
/// Bytes that are taken of it all.
const MOST: usize = 4096;

/// The first line.
pub(super) fn ready(landlock: &str) -> String {
    format!("{READY}{landlock}\n")
}

/// What came of it so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report(Vec<u8>);

impl Report {
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let room = MOST.saturating_sub(self.0.len());
        self.0.extend(bytes.iter().take(room));
    }

    /// How far Landlock went, once process 1 waits to be told to go on.
    pub(crate) fn landlock(&self) -> Option<&str> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        std::str::from_utf8(&self.0[..end]).ok()?.strip_prefix(READY)
    }

    /// Why there is no shell, where process 1 could still say so.
    pub(crate) fn fault(&self) -> Option<String> {
        let ready = self.landlock().map_or(0, |landlock| ready(landlock).len());
        let said = String::from_utf8_lossy(&self.0[ready..]);
        Some(said.trim().to_owned()).filter(|said| !said.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_understood_whatever_its_pieces() {
        for (said, landlock, fault) in [
            ("", None, None),
            ("ready fu", None, Some("ready fu")),
            ("ready full\n", Some("full"), None),
            ("ready none\n/bin/sh can't be started\n", Some("none"), Some("/bin/sh can't be started")),
            ("no Landlock\n", None, Some("no Landlock")),
        ] {
            let mut report = Report::default();
            said.as_bytes().chunks(3).for_each(|bytes| report.take(bytes));
            assert_eq!((report.landlock(), report.fault().as_deref()), (landlock, fault), "{said}");
        }
        let mut report = Report::default();
        (0..100).for_each(|_| report.take(&[b'x'; 100]));
        assert_eq!(report.fault().expect("a part").len(), MOST);
    }
}
