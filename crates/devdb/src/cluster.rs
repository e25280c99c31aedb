//! The cluster: made once, by `initdb`, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::account::Account;
use crate::command::{command, run};
use crate::find::Binaries;

/// Where the cluster of a data folder lies.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("cluster")
}

/// The major version that made the cluster, if there is one.
pub(crate) fn made_by(data_dir: &Path) -> Option<String> {
    Some(fs::read_to_string(path(data_dir).join("PG_VERSION")).ok()?.trim().to_owned())
}

/// Makes the cluster. It gets its name only when it is whole: an `initdb` that was killed is begun anew.
pub(crate) fn create(
    data_dir: &Path,
    binaries: &Binaries,
    account: Option<Account>,
    fsync: bool,
) -> Result<(), Error> {
    let unfinished = data_dir.join("cluster.new");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(|e| Error::folder(&unfinished, e))?;
    }
    // C sorts as C.UTF-8 does; it is there even where no locale is installed.
    initdb(&unfinished, binaries, account, fsync, "C.UTF-8")
        .or_else(|_| initdb(&unfinished, binaries, account, fsync, "C"))?;
    fs::rename(&unfinished, path(data_dir)).map_err(|e| Error::folder(data_dir, e))
}

fn initdb(
    dir: &Path,
    binaries: &Binaries,
    account: Option<Account>,
    fsync: bool,
    locale: &str,
) -> Result<(), Error> {
    let mut initdb = command(&binaries.program("initdb"), account);
    initdb.arg("--pgdata").arg(dir).arg("--locale").arg(locale);
    initdb.args(["--encoding=UTF8", "--username=postgres", "--auth=trust"]);
    if !fsync {
        initdb.arg("--no-sync");
    }
    run("initdb", &mut initdb).map(drop)
}
