//! Where the programs of the stage are.

use std::fs;
use std::path::PathBuf;

use super::{Error, Result};

/// Names the program under test, where it isn't beside this one.
const VARIABLE: &str = "ANSWERABLE_CHAOS_SERVER";
/// Its name beside this one. Not `answerable`: that is the normal build, which can't crash at named points.
const NAME: &str = "answerable-faults";

/// The program under test: a build with the feature `faults`.
pub(crate) fn server() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Ok(named.into());
    }
    let this = std::env::current_exe().map_err(Error::io("this program"))?;
    // TARGET/PROFILE/answerable-chaos, or a test in TARGET/PROFILE/deps
    let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join(NAME)).find(|path| path.is_file());
    beside
        .ok_or_else(|| Error::says(format!("{NAME} is not beside this program: scripts/faults.sh builds it")))
}

/// `ANSWERABLE_PG_BIN`, else the newest of Debian's folders, else what is on the path.
pub(super) fn postgres() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("ANSWERABLE_PG_BIN").filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = folders
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").is_file())
        .collect();
    versions.sort_unstable();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file());
    versions.pop().map(|(_, bin)| bin).or_else(on_path).ok_or_else(|| {
        Error::says("PostgreSQL is not here: scripts/postgres.sh finds or installs it (ANSWERABLE_PG_BIN)")
    })
}
