//! libfaketime, for clocks that are wrong.

use std::path::PathBuf;
use std::process::Command;

/// Where Debian and others keep the library.
const PLACES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
];

/// The library, if it is here.
pub(super) fn library() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Makes the command's clock wrong: `how` is libfaketime's setting, such as `FAKETIME`, and its value. Only the time of
/// day is touched: what counts seconds (timeouts, sleeps) goes on as it does.
pub(super) fn preload(command: &mut Command, library: &std::path::Path, how: (&str, &str)) {
    command.env("LD_PRELOAD", library).env(how.0, how.1);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1").env("FAKETIME_NO_CACHE", "1");
}
