//! Whether and how commands of shell tools are run.

use std::path::PathBuf;

use super::{Invalid, Layers, read};

/// Most memory that one command may be given, in MiB.
const MOST_MEMORY: u64 = 16_384;

/// Commands of shell tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// They are run, where sandboxes can be made.
    pub on: bool,
    /// Agents may let them reach the network.
    pub network: bool,
    /// Commands that run at once.
    pub at_once: usize,
    /// Most memory that an agent may give one of them, in MiB.
    pub memory_mb: u64,
    /// Where copies of workspaces are made for them; `None`: in the system's folder for such things.
    pub folder: Option<PathBuf>,
}

/// Reads its settings.
pub(super) fn shell(layers: &Layers) -> Result<Shell, Invalid> {
    let whole = |name, range| layers.get(name, |text| read::whole(text, range));
    Ok(Shell {
        on: layers.get("shell", truth)?.unwrap_or(true),
        network: layers.get("shell_network", truth)?.unwrap_or(false),
        at_once: whole("shell_at_once", 1..=1000)?.and_then(|n| usize::try_from(n).ok()).unwrap_or(8),
        memory_mb: whole("shell_memory_mb", 16..=MOST_MEMORY)?.unwrap_or(1024),
        folder: layers.get("shell_dir", folder)?,
    })
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("is {text:?}, and true or false is needed"))
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(format!("is {text:?}, and a path from / is needed")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Shell, Invalid> {
        let environment = variables.iter().map(|(name, value)| (name.into(), value.into()));
        shell(&Layers::stack(Vec::new(), environment, None)?)
    }

    #[test]
    fn commands_run_without_the_network_unless_the_operator_says_otherwise() {
        let plain = read(&[]).expect("defaults");
        assert!(plain.on && !plain.network);
        assert_eq!((plain.at_once, plain.memory_mb, plain.folder), (8, 1024, None));
        let given = read(&[
            ("ANSWERABLE_SHELL", "false"),
            ("ANSWERABLE_SHELL_NETWORK", "true"),
            ("ANSWERABLE_SHELL_AT_ONCE", "2"),
            ("ANSWERABLE_SHELL_MEMORY_MB", "4096"),
            ("ANSWERABLE_SHELL_DIR", "/var/tmp"),
        ]);
        let given = given.expect("settings");
        assert!(!given.on && given.network);
        assert_eq!((given.at_once, given.memory_mb, given.folder), (2, 4096, Some("/var/tmp".into())));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (name, value) in [
            ("ANSWERABLE_SHELL", "yes"),
            ("ANSWERABLE_SHELL_NETWORK", "1"),
            ("ANSWERABLE_SHELL_AT_ONCE", "0"),
            ("ANSWERABLE_SHELL_MEMORY_MB", "8"),
            ("ANSWERABLE_SHELL_DIR", "tmp"),
        ] {
            assert!(read(&[(name, value)]).expect_err(name).0.contains(name));
        }
    }
}
