//! Child processes of PostgreSQL: clean environment, own process group, never outliving their owner.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};

use crate::Error;
use crate::account::Account;

/// A command that runs `program` as `account`, in its own process group (so that neither Ctrl-C nor a kill
/// of the owner's group hits it), with none of the owner's `PG*` settings. It gets SIGINT, for PostgreSQL a
/// fast shutdown, when the *thread* that spawned it ends.
pub(crate) fn command(program: &Path, account: Option<Account>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C").env_remove("LANGUAGE").current_dir("/").stdin(Stdio::null()).process_group(0);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    end_with_owner(&mut command, getpid());
    command
}

#[expect(unsafe_code, reason = "PR_SET_PDEATHSIG must be set between fork and exec")]
fn end_with_owner(command: &mut Command, owner: Pid) {
    // SAFETY: the closure makes two system calls that are async-signal-safe and touches no memory but its own.
    unsafe {
        command.pre_exec(move || {
            set_pdeathsig(Signal::SIGINT)?;
            // The owner may have died before the call above: then no signal will come.
            if getppid() == owner { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
        });
    }
}

/// Runs `command` to its end and returns what it printed on standard output.
pub(crate) fn run(name: &'static str, command: &mut Command) -> Result<String, Error> {
    let failed = |reason: String| Error::Program { program: name, reason };
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = last_words(&String::from_utf8_lossy(&output.stderr));
    Err(failed(words.unwrap_or_else(|| output.status.to_string())))
}

/// The line of a program's complaint that says most: the last that names an error, else the last.
pub(crate) fn last_words(text: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = |line: &&str| ["FATAL", "PANIC", "ERROR", "error:"].iter().any(|word| line.contains(word));
    lines().rfind(telling).or_else(|| lines().next_back()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_is_picked() {
        let text = "starting\n2026 FATAL:  could not open\n2026 LOG:  shut down\n\n";
        assert_eq!(last_words(text).as_deref(), Some("2026 FATAL:  could not open"));
        assert_eq!(last_words("one\ntwo\n").as_deref(), Some("two"));
        assert_eq!(last_words(" \n"), None);
    }

    #[test]
    fn a_failing_program_is_named_with_its_words() {
        let mut shell = command(Path::new("/bin/sh"), None);
        shell.args(["-c", "echo 'oops: error: no' >&2; exit 3"]);
        let error = run("sh", &mut shell).expect_err("exit status 3");
        assert_eq!(error.to_string(), "sh failed: oops: error: no");
    }
}
