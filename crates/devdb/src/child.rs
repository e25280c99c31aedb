//! The `postgres` process and the thread that is its parent.

use std::io;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// A running child. Dropping it does not end it.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    end: Arc<End>,
}

#[derive(Debug, Default)]
struct End {
    /// True from the moment before the process id is given back to the system.
    ended: Mutex<bool>,
    changed: Condvar,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Child {
    /// Spawns `command` from a thread that lives as long as the child does: the kernel tells a child of its
    /// parent *thread's* death, and the caller's thread may be short-lived.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let end = Arc::new(End::default());
        let theirs = Arc::clone(&end);
        thread::Builder::new().name("postgres-parent".to_owned()).spawn(move || match command.spawn() {
            Ok(mut child) => {
                // Process ids are positive and fit: Linux caps them at 2^22.
                let pid = Pid::from_raw(child.id().cast_signed());
                let _ = sender.send(Ok(pid));
                while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {
                }
                let mut ended = theirs.lock();
                let _ = child.wait();
                *ended = true;
                theirs.changed.notify_all();
            }
            Err(error) => drop(sender.send(Err(error))),
        })?;
        let pid = receiver.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))??;
        Ok(Self { pid, end })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.end.lock()
    }

    /// Sends `signal`, unless the child has ended: its id may be another process's by then.
    pub(crate) fn signal(&self, signal: Signal) {
        let ended = self.end.lock();
        if !*ended {
            let _ = kill(self.pid, signal);
        }
    }

    /// Waits for the child's end; false when it still runs after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut ended = self.end.lock();
        while !*ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            ended = self.end.changed.wait_timeout(ended, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
