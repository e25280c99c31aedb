//! Process 1 of a sandbox: takes away what is left to take, starts the shell, buries orphans, and ends as the shell does.
//! With it ends every process of the sandbox.
//!
//! It is this program once more, asked for by its first argument, because Landlock binds only the thread that asks for it
//! and those it starts: in a server it would bind some of the server.

mod inside;
mod landlocked;
mod report;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::sys::prctl::{set_dumpable, set_pdeathsig};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;

pub(crate) use inside::Inside;
pub(crate) use report::Report;

/// First argument of a program that is to be process 1 of a sandbox.
pub const ASKED: &str = "sandbox-init";
/// How much less important than others a command's processes are to the scheduler.
const NICE: libc::c_int = 10;
/// Exit code where the shell could not be started; the report says why.
const NOT_STARTED: u8 = 125;

/// Runs as process 1 of a sandbox, if the program was asked to; a program calls this before all else.
#[must_use]
pub fn if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()?.to_str() != Some(ASKED) {
        return None;
    }
    let arguments: Option<Vec<String>> = arguments.map(|argument| argument.into_string().ok()).collect();
    let Some((report, go, inside)) = arguments.and_then(|arguments| Inside::read(&arguments)) else {
        return Some(ExitCode::from(NOT_STARTED));
    };
    let (mut report, go) = (File::from(passed(report)), File::from(passed(go)));
    Some(match start(&inside, &mut report, go) {
        Ok(shell) => {
            // That it is closed says that this process has ended, so the system is to do it; nobody else within has it.
            std::mem::forget(report);
            until_ended(shell)
        }
        Err(error) => {
            let _ = writeln!(report, "{error}");
            ExitCode::from(NOT_STARTED)
        }
    })
}

/// A descriptor that this process was started with.
#[expect(unsafe_code, reason = "only its number says that it is there")]
fn passed(number: RawFd) -> OwnedFd {
    // SAFETY: whoever asked for process 1 left it open for this purpose alone, and nothing else here knows its number.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Confines this process, says how far Landlock went, and starts the shell when it is told to.
fn start(inside: &Inside, report: &mut File, mut go: File) -> io::Result<Pid> {
    // When memory runs out, this goes before anything of the server.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let landlock = landlocked::confine(inside.network).map_err(io::Error::other)?;
    // What runs within may not look into this process: it is the only one that isn't its own.
    set_dumpable(false)?;
    // bubblewrap did that too; nothing is to run that doesn't end with it.
    set_pdeathsig(Signal::SIGKILL)?;
    report.write_all(report::ready(landlock).as_bytes())?;
    // Whoever started this may have died before the signal was asked for, or may not want it any more.
    go.read_exact(&mut [0])?;
    drop(go);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &inside.command]).stdin(Stdio::null());
    limit(&mut shell, inside);
    let shell =
        shell.spawn().map_err(|error| io::Error::other(format!("/bin/sh can't be started: {error}")))?;
    // Process ids are positive and fit: Linux caps them at 2^22.
    Ok(Pid::from_raw(shell.id().cast_signed()))
}

/// The limits are the shell's and those of all that it starts, not this process's.
#[expect(unsafe_code, reason = "limits of a child are set between fork and exec")]
fn limit(shell: &mut Command, inside: &Inside) {
    let limits = [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_AS, inside.address_space),
        (Resource::RLIMIT_DATA, inside.memory),
        (Resource::RLIMIT_CPU, inside.cpu_seconds),
        (Resource::RLIMIT_FSIZE, inside.file),
        (Resource::RLIMIT_NOFILE, inside.open_files),
        // This process counts too.
        (Resource::RLIMIT_NPROC, inside.processes + 1),
        (Resource::RLIMIT_MEMLOCK, 1 << 16),
        (Resource::RLIMIT_MSGQUEUE, 0),
        (Resource::RLIMIT_SIGPENDING, 256),
    ];
    // SAFETY: the closure makes system calls that are async-signal-safe and allocates nothing.
    unsafe {
        shell.pre_exec(move || {
            if libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::nice(NICE);
            for (resource, most) in limits {
                setrlimit(resource, most, most)?;
            }
            Ok(())
        });
    }
}

/// Waits for the shell's end, and buries all orphans on the way.
fn until_ended(shell: Pid) -> ExitCode {
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid == shell => {
                return code_of(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == shell => {
                return code_of(ExitStatus::from_raw(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return ExitCode::from(NOT_STARTED),
        }
    }
}

/// As a shell tells of its children: a signal is 128 and its number.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(0);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
