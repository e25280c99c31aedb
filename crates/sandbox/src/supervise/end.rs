//! The end of a sandbox, down to its last process.

use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use super::first::First;

/// Time that a sandbox has to fall apart once its process 1 has ended, or was not let go on.
const FALL: Duration = Duration::from_secs(2);
/// Pause between two looks at whether it has.
const FALL_LOOK: Duration = Duration::from_millis(5);

/// Ends the sandbox, unless it is about to end by itself, and returns when all its processes are gone. One whose process 1
/// was never let go on (then there is no `first`) is about to.
///
/// Process 1 goes first: with it go all others, and bubblewrap, whose child it is, buries it. Otherwise that would be left
/// to the machine's process 1, and in a container that may be this one. And bubblewrap's inner process would wait for ever
/// for an outer one that was killed too early.
pub(super) fn end(child: &mut Child, first: Option<First>, by_itself: bool) -> io::Result<ExitStatus> {
    if !by_itself && let Some(first) = &first {
        first.kill();
    }
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            let is_gone = first.map_or(Ok(true), |first| first.ends_within(FALL))?;
            return if is_gone { Ok(status) } else { Err(stays()) };
        }
        if begun.elapsed() > 2 * FALL {
            return Err(stays());
        }
        if begun.elapsed() > FALL {
            let late = if first.is_none() { First::of(child).unwrap_or_default() } else { None };
            first.iter().chain(&late).for_each(First::kill);
            child.kill()?;
        }
        std::thread::sleep(FALL_LOOK);
    }
}

fn stays() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the sandbox's processes don't end although they were killed")
}
