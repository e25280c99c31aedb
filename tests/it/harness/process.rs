//! Child processes that never outlive the tests.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::sleep;

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        end_with_the_tests(&mut command);
        let (answer, child) = mpsc::channel();
        let asked = parent().send((command, answer));
        asked.map_err(|_| io::ErrorKind::BrokenPipe)?;
        child.recv().map_err(|_| io::ErrorKind::BrokenPipe)?.map(|child| Self { child })
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Bytes of memory that it has in use, as the kernel tells.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
        kib * 1024
    }

    /// SIGKILL; returns when it is gone.
    pub(crate) fn kill(&mut self) {
        // Fails where it has ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM; how it ended, or `None` where it still runs after `patience`.
    pub(crate) async fn terminate(&mut self, patience: Duration) -> Option<ExitStatus> {
        // The child has not been waited for, so the id is still its own.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            sleep(Duration::from_millis(10)).await;
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// The thread that spawns all children and lives as long as this process: the kernel tells a child of the death
/// of its parent *thread*, and threads of tests are short-lived.
fn parent() -> mpsc::Sender<Order> {
    static PARENT: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let orders = PARENT.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // Nobody waits for the answer where a test was given up.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    orders.clone()
}

#[expect(unsafe_code, reason = "PR_SET_PDEATHSIG must be set between fork and exec")]
fn end_with_the_tests(command: &mut Command) {
    // SAFETY: the closure makes one system call that is async-signal-safe and touches no memory but its own.
    unsafe {
        command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
    }
}
