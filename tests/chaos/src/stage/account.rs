//! Which account runs PostgreSQL and PgBouncer: both refuse to run as root.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::{User, geteuid};

use super::{Error, Result};

/// `nobody` on every Linux distribution.
const NOBODY: u32 = 65534;

/// An unprivileged account that root steps down to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// `postgres`, else nobody; `None` for an ordinary user, who runs everything under the own account.
    pub(super) fn to_step_down_to() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        match User::from_name("postgres") {
            Ok(Some(user)) => Some(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            _ => Some(Self { uid: NOBODY, gid: NOBODY }),
        }
    }

    /// Gives `path` to this account.
    pub(super) fn give(self, path: &Path) -> Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .map_err(Error::io(path.display().to_string()))
    }
}

/// A command that runs as `account`, without this process's `PG*` variables.
pub(super) fn command(program: &Path, account: Option<Account>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C").current_dir("/").stdin(std::process::Stdio::null());
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}
