//! Standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::Failure;

/// Writes a line to standard output. A reader that went away, as in `… | head`, ends the command quietly.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| match e.kind() {
        ErrorKind::BrokenPipe => Failure::silent(0),
        _ => Failure::new(format!("standard output: {e}")),
    })
}

/// Writes a line to standard error, if anybody is there.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether standard output is a terminal that wants colours.
pub(crate) fn has_colors() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
