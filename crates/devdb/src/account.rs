//! Which account runs PostgreSQL: it refuses to run as root.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{User, geteuid};

use crate::Error;

/// `nobody` on every Linux distribution.
const NOBODY: u32 = 65534;

/// An unprivileged account that root steps down to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// The account to step down to: `postgres`, else nobody. `None` for an ordinary user, who runs the server
    /// under the own account.
    pub(crate) fn to_step_down_to() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        match User::from_name("postgres") {
            Ok(Some(user)) => Some(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            _ => Some(Self { uid: NOBODY, gid: NOBODY }),
        }
    }

    /// Whether this account may pass through `dir` and every folder above it.
    pub(crate) fn can_enter(&self, dir: &Path) -> bool {
        dir.ancestors().all(|folder| {
            folder.as_os_str().is_empty()
                || folder.metadata().is_ok_and(|meta| {
                    let class = match () {
                        () if meta.uid() == self.uid => 6,
                        () if meta.gid() == self.gid => 3,
                        () => 0,
                    };
                    meta.is_dir() && meta.mode() >> class & 1 == 1
                })
        })
    }

    /// Gives `path` to this account.
    pub(crate) fn give(&self, path: &Path) -> Result<(), Error> {
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).map_err(|e| Error::folder(path, e))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_closed_folder_closes_all_below_it() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let below = dir.path().join("below");
        create_dir(&below).expect("folder");
        let stranger = Account { uid: 54321, gid: 54321 };
        set_permissions(dir.path(), Permissions::from_mode(0o711)).expect("mode");
        assert!(stranger.can_enter(&below));
        set_permissions(dir.path(), Permissions::from_mode(0o700)).expect("mode");
        assert!(!stranger.can_enter(&below));
        let owner = Account { uid: dir.path().metadata().expect("metadata").uid(), gid: 54321 };
        assert!(owner.can_enter(&below));
    }
}
