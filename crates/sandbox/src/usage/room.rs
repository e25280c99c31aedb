//! How much the file system of a sandbox's folder has left, whoever took the rest.

use cap_std::fs::Dir;

/// Room on a file system, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Not taken by anything.
    pub(crate) free: u64,
    /// Of that, what is left for those who aren't root.
    left: u64,
}

impl Room {
    /// Under so much, all that the file system is used for is in danger.
    const SPARE: u64 = 64 << 20;

    /// That which the folder is on; `None` where it doesn't tell.
    pub(crate) fn of(folder: &Dir) -> Option<Self> {
        let told = nix::sys::statvfs::fstatvfs(folder).ok()?;
        let bytes = |blocks: u64| blocks * told.fragment_size();
        Some(Self { free: bytes(told.blocks_free()), left: bytes(told.blocks_available()) })
    }

    pub(crate) fn is_nearly_gone(self) -> bool {
        self.left < Self::SPARE
    }
}
