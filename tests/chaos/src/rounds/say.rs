//! How a round talks.

use std::io::Write;

/// Prints a line. Nobody may be listening, which is no reason to stop.
pub fn say(line: impl AsRef<str>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", line.as_ref()).and_then(|()| out.flush());
}
