//! Child processes that never outlive this one, and are signalled by their ids alone.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Pause between two looks at a child that is to end.
const LOOK: Duration = Duration::from_millis(5);

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    child: Mutex<Child>,
}

impl Process {
    /// Starts `command` in a process group of its own, so that Ctrl-C hits this process alone. When this process dies,
    /// the kernel sends the child `with_owner`.
    ///
    /// # Errors
    /// It can't be started.
    pub fn spawn(mut command: Command, with_owner: Signal) -> io::Result<Self> {
        command.process_group(0);
        end_with_owner(&mut command, with_owner);
        let (answer, child) = mpsc::channel();
        parent().send((command, answer)).map_err(|_| io::ErrorKind::BrokenPipe)?;
        let child = child.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
        Ok(Self { pid: Pid::from_raw(child.id().cast_signed()), child: Mutex::new(child) })
    }

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// What it wrote to standard output, where that is a pipe. Once.
    pub fn stdout(&self) -> Option<std::process::ChildStdout> {
        self.child().stdout.take()
    }

    /// How it ended, if it did.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    /// Sends a signal, unless it has ended: its id may be another process's by then.
    pub fn signal(&self, signal: Signal) {
        let mut child = self.child();
        if matches!(child.try_wait(), Ok(None)) {
            // It may end at this very moment, which is as good.
            let _ = kill(self.pid, signal);
        }
    }

    /// SIGKILL; returns when it is gone.
    pub fn kill(&self) {
        let mut child = self.child();
        // Fails where it has ended already.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// How it ended; `None` where it still runs after `patience`.
    pub async fn end(&self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a process ended, for people.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "SIGKILL".to_owned(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "unknown".to_owned(),
    }
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// The thread that spawns all children and lives as long as this process: the kernel tells a child of the death of its
/// parent *thread*, and threads of a runtime come and go.
fn parent() -> mpsc::Sender<Order> {
    static PARENT: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let orders = PARENT.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // Nobody waits for the answer where a round was given up.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    orders.clone()
}

#[expect(unsafe_code, reason = "PR_SET_PDEATHSIG must be set between fork and exec")]
fn end_with_owner(command: &mut Command, signal: Signal) {
    // SAFETY: the closure makes one system call that is async-signal-safe and touches no memory but its own.
    unsafe {
        command.pre_exec(move || set_pdeathsig(signal).map_err(io::Error::from));
    }
}
