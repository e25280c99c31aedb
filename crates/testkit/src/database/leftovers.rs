//! Sees to it that a test process leaves no cluster behind.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, which is the end of the test process, then removes the folder. PostgreSQL
/// is ended by the kernel at the same moment and may still be writing, hence several tries.
const SCRIPT: &str = r#"
cat >/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1" 2>/dev/null
    [ -e "$1" ] || exit 0
    sleep 0.3
done
"#;

/// A child that outlives this process by a moment. Statics are never dropped, so nothing in the process itself
/// could clean up at its end; and it may be killed.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// Holds the writing end of the child's input.
    _watcher: Child,
}

impl Leftovers {
    /// Has `folder` removed when this process has ended.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let mut watcher = Command::new("sh");
        watcher.args(["-c", SCRIPT, "sh"]).arg(folder);
        watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: an interrupt from the keyboard ends the tests, not this.
        Ok(Self { _watcher: watcher.process_group(0).spawn()? })
    }
}
