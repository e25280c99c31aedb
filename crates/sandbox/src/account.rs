//! Whose processes a command's are.

use nix::unistd::{Uid, geteuid};

/// An account of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Has no files and no rights, and is there on every machine and in every container.
const NOBODY: Account = Account { uid: 65534, gid: 65534 };

/// Whom a command runs as, where that isn't who the server runs as: root's commands are nobody's.
pub(crate) fn other() -> Option<Account> {
    (geteuid() == Uid::from_raw(0)).then_some(NOBODY)
}
