//! The program under test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Names another program to test than the one beside this test.
const VARIABLE: &str = "ANSWERABLE_TEST_BINARY";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// What goes into the program, below the root.
const SOURCES: [&str; 4] = ["Cargo.toml", "crates", "migrations", "openapi.yaml"];
/// Crates that do not go into it.
const TEST_CRATES: [&str; 1] = ["testkit"];

/// The program's path. It is built first where it is missing or older than its sources.
///
/// # Panics
/// When it can't be built.
pub(crate) fn binary() -> &'static Path {
    // The failure is kept as well: a build that failed is not tried again by every test.
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| match env::var_os(VARIABLE) {
        Some(path) => Ok(path.into()),
        None => beside_this_test(),
    });
    found.as_deref().unwrap_or_else(|fault| panic!("the program under test: {fault}"))
}

fn beside_this_test() -> Result<PathBuf, String> {
    // TARGET/PROFILE/deps/it-HASH
    let this = env::current_exe().map_err(|e| e.to_string())?;
    let folder = this.parent().and_then(Path::parent).ok_or("this test does not run from a target folder")?;
    let program = folder.join("answerable");
    let newest = SOURCES.iter().filter_map(|name| newest(&Path::new(ROOT).join(name))).max();
    if modified(&program).is_none_or(|built| newest.is_some_and(|newest| newest > built)) {
        build(folder)?;
    }
    if program.is_file() { Ok(program) } else { Err(format!("{} was not built", program.display())) }
}

/// Builds the program in this test's own profile and target folder.
fn build(profile_folder: &Path) -> Result<(), String> {
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let target = profile_folder.parent().ok_or("there is no target folder")?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", "answerable", "--profile", profile, "--target-dir"]).arg(target);
    cargo.current_dir(ROOT);
    if env::var_os("DATABASE_URL").is_none() {
        cargo.env("SQLX_OFFLINE", "true");
    }
    let output = cargo.output().map_err(|e| format!("cargo can't be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`cargo build -p answerable` failed:\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// When the newest file at or below `path` was written.
fn newest(path: &Path) -> Option<SystemTime> {
    let Ok(entries) = fs::read_dir(path) else { return modified(path) };
    let is_source = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !TEST_CRATES.contains(&name) && name != "tests"
    };
    entries.flatten().map(|entry| entry.path()).filter(is_source).filter_map(|path| newest(&path)).max()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}
