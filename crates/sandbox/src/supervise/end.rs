//! The end of a sandbox, down to its last process.

use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::usage::Processes;

/// Time that a sandbox has to fall apart once its process 1 is killed.
const FALL: Duration = Duration::from_secs(2);
/// Pause between two looks at whether it has.
const FALL_LOOK: Duration = Duration::from_millis(5);

/// Ends the sandbox, unless it is about to end by itself, and returns when all its processes are gone.
pub(super) fn end(child: &mut Child, by_itself: bool) -> io::Result<ExitStatus> {
    let processes = Processes::of(child.id());
    // Process 1 first: with it go all others, and bubblewrap, whose child it is, buries it. Otherwise that would be left
    // to the machine's process 1, and in a container that may be this one.
    let first = processes.ids().get(1).copied();
    let deadline = Instant::now() + FALL;
    let mut killed = false;
    loop {
        if let Some(status) = child.try_wait()? {
            wait_for(first)?;
            return Ok(status);
        }
        if !by_itself
            && !killed
            && let Some(first) = first
        {
            // It may have ended by itself just now.
            let _ = kill(Pid::from_raw(first.cast_signed()), Signal::SIGKILL);
            killed = true;
        }
        // Before there is a process 1, bubblewrap is all there is.
        if !by_itself && first.is_none() || Instant::now() > deadline {
            child.kill()?;
        }
        std::thread::sleep(FALL_LOOK);
    }
}

/// Until a process that is nobody's child here is no more than a name.
fn wait_for(process: Option<u32>) -> io::Result<()> {
    let Some(process) = process else { return Ok(()) };
    let deadline = Instant::now() + FALL;
    while is_alive(process) {
        if Instant::now() > deadline {
            let message = "the sandbox's processes don't end although they were killed";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(FALL_LOOK);
    }
    Ok(())
}

fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name, which may hold anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}
