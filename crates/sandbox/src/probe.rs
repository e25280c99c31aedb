//! Whether sandboxes can be made here, found out by making one.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::init::Report;
use crate::limits::Limits;
use crate::sandbox::{Fault, Order, Sandbox};
use crate::supervise::{How, UNSEEN};

/// Prints what the kernel says of a process within, by the shell's own means.
const LOOK: &str = "while read -r line; do echo \"$line\"; done </proc/self/status";
/// Time for that.
const PATIENCE: Duration = Duration::from_secs(10);
/// What it must say.
const CONFINED: [(&str, &str, &str); 4] = [
    ("Seccomp", "2", "system calls are not filtered (seccomp)"),
    ("NoNewPrivs", "1", "privileges can be gained by setuid programs"),
    ("CapEff", "0000000000000000", "processes have capabilities"),
    ("CapBnd", "0000000000000000", "processes can gain capabilities"),
];

/// What confines a command here. All but Landlock is always there; where it is not, there are no sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// Landlock, beside the mount namespace.
    pub landlock: Landlock,
}

/// How far Landlock goes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landlock {
    /// As far as this version asks.
    Full,
    /// The kernel is too old for some of it.
    Partial,
    /// The kernel has none.
    None,
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let landlock = match self.landlock {
            Landlock::Full => "Landlock",
            Landlock::Partial => "a part of Landlock (the kernel is old)",
            Landlock::None => "no Landlock (the kernel has none)",
        };
        write!(f, "namespaces, seccomp, limits, {landlock}")
    }
}

/// Why there are no sandboxes here, with what the system said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {said}")]
pub struct Unusable {
    what: &'static str,
    said: String,
}

impl Unusable {
    /// For people who are to know nothing of this machine's inside.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }
}

const MISSING: &str = "bubblewrap is not installed";
const FORBIDDEN: &str = "bubblewrap can't make user namespaces on this machine, or in this container";
const LEAKY: &str = "a layer of the sandbox is missing on this machine";
const UNWATCHED: &str = "the server can't watch the processes of a sandbox on this machine";
const OTHER: &str = "the sandbox can't be made on this machine; the server's log says why";

fn unusable(what: &'static str, said: impl ToString) -> Unusable {
    Unusable { what, said: said.to_string() }
}

/// Makes a sandbox and looks at it from within.
pub(crate) fn probe(sandbox: &Sandbox) -> Result<Layers, Unusable> {
    let folder = sandbox
        .folder_to_look()
        .map_err(|error| unusable(OTHER, format!("no folder can be made: {error}")))?;
    let limits = Limits { time: PATIENCE, ..Limits::default() };
    let order = Order { command: LOOK.into(), network: false, limits };
    let (cancel, _wanted) = io::pipe().map_err(|error| unusable(OTHER, error))?;
    let ended = sandbox.run_here(Arc::new(folder), &order, &cancel).map_err(told)?;
    let status = ended.output.text();
    if ended.how != How::Exited(0) {
        let said = format!("a command in it ended with {:?}: {:.300}", ended.how, status.trim());
        return Err(unusable(OTHER, said));
    }
    judge(&status)?;
    Ok(Layers { landlock: landlock(&ended.report) })
}

fn judge(status: &str) -> Result<(), Unusable> {
    let is = |name: &str, value: &str| {
        status.lines().filter_map(|line| line.split_once(':')).any(|(n, v)| n == name && v.trim() == value)
    };
    match CONFINED.iter().find(|(name, value, _)| !is(name, value)) {
        Some((_, _, said)) => Err(unusable(LEAKY, said)),
        None => Ok(()),
    }
}

fn landlock(report: &Report) -> Landlock {
    match report.landlock() {
        Some("full") => Landlock::Full,
        Some("partial") => Landlock::Partial,
        _ => Landlock::None,
    }
}

fn told(fault: Fault) -> Unusable {
    let Fault::NotMade(said) = fault else { return unusable(OTHER, fault) };
    let what = if said.ends_with("is not here") {
        MISSING
    } else if said.contains("namespace") || said.contains("uid map") {
        FORBIDDEN
    } else if said == UNSEEN {
        UNWATCHED
    } else {
        OTHER
    };
    unusable(what, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_is_missing_is_named() {
        let good =
            "Name:\tsh\nNoNewPrivs:\t1\nSeccomp:\t2\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n";
        assert_eq!(judge(good), Ok(()));
        for (name, value, what) in CONFINED {
            let bad = good.replace(&format!("{name}:\t{value}"), &format!("{name}:\t7"));
            assert_eq!(judge(&bad), Err(unusable(LEAKY, what)));
        }
    }

    #[test]
    fn what_bubblewrap_says_comes_with_what_it_means() {
        for (said, what) in [
            ("bwrap is not here", MISSING),
            ("bwrap: No permissions to create new namespace", FORBIDDEN),
            ("bwrap: setting up uid map: Permission denied", FORBIDDEN),
            (UNSEEN, UNWATCHED),
            ("bwrap: Can't find source path /secret/place", OTHER),
        ] {
            let why = told(Fault::NotMade(said.into()));
            assert_eq!((why.what(), why.to_string()), (what, format!("{what}: {said}")));
        }
    }
}
