//! Process 1 of a sandbox, as seen from outside.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::usage::{children, tells_of_children};

/// Held by a descriptor: bubblewrap buries it, and then its number may be another's.
#[derive(Debug)]
pub(super) struct First {
    number: u32,
    fd: OwnedFd,
}

impl First {
    /// The child of bubblewrap's outer process, if that has one by now.
    pub(super) fn of(bubblewrap: &Child) -> io::Result<Option<Self>> {
        let child = || children(bubblewrap.id()).first().copied();
        let Some(number) = child() else { return Ok(None) };
        let Some(id) = Pid::from_raw(number.cast_signed()) else { return Ok(None) };
        let fd = match pidfd_open(id, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            fd => fd?,
        };
        // It still has that child, so the number was that child's all the while.
        Ok((child() == Some(number)).then_some(Self { number, fd }))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Whether the system shows it, and what it starts, to us.
    pub(super) fn is_shown(&self) -> bool {
        tells_of_children(self.number)
    }

    /// With it go all other processes of the sandbox.
    pub(super) fn kill(&self) {
        // It may have ended by itself just now.
        let _ = pidfd_send_signal(&self.fd, Signal::KILL);
    }

    /// Waits until it has ended, and with it all others; whether it has.
    pub(super) fn ends_within(&self, time: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            let left = PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
            match poll(&mut [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)], left) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_held_killed_and_its_end_is_noticed() {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "read -r _; sleep 60 & wait"]).stdin(Stdio::piped());
        let mut shell = shell.spawn().expect("a shell");
        assert!(First::of(&shell).expect("a look").is_none(), "it has no child yet");
        drop(shell.stdin.take());
        let first = loop {
            if let Some(first) = First::of(&shell).expect("a look") {
                break first;
            }
        };
        assert!(!first.ends_within(Duration::from_millis(1)).expect("a wait"));
        first.kill();
        assert!(first.ends_within(Duration::from_secs(10)).expect("a wait"));
        shell.wait().expect("its end");
        // Its number may be another's now; the descriptor is not.
        first.kill();
        assert!(first.ends_within(Duration::ZERO).expect("a wait"));
        assert!(First::of(&shell).expect("a look").is_none());
    }
}
