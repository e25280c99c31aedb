//! `answerable.toml`.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Invalid;
use super::mcp_stdio::{self, Commands};
use super::names::NAMES;
use super::unknown::did_you_mean;

/// The file that is read when none is named, if it is there.
const DEFAULT_FILE: &str = "answerable.toml";

/// A file's settings: names and texts, and the commands that it names.
pub(crate) type FileSettings = (PathBuf, Vec<(&'static str, String)>, Commands);

/// Reads the settings of the file named by `--config`, or of `answerable.toml` in the working folder.
pub(crate) fn load(named: Option<&Path>) -> Result<Option<FileSettings>, Invalid> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let (settings, commands) = parse(path, &text)?;
            Ok(Some((path.to_owned(), settings, commands)))
        }
        Err(e) if named.is_none() && e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Invalid(format!("{}: {e}", path.display()))),
    }
}

/// What a file says: settings as texts, and commands.
type Said = (Vec<(&'static str, String)>, Commands);

fn parse(path: &Path, text: &str) -> Result<Said, Invalid> {
    let invalid = |what: String| Invalid(format!("{}: {what}", path.display()));
    let table: Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        invalid(format!("line {line}: {}", e.message()))
    })?;
    let (mut settings, mut commands) = (Vec::new(), Commands::new());
    for (key, value) in table {
        if key == mcp_stdio::TABLE {
            commands = mcp_stdio::read(&value).map_err(invalid)?;
            continue;
        }
        let Some(name) = NAMES.iter().find(|name| **name == key) else {
            return Err(invalid(format!("unknown key {key:?}{}", did_you_mean(&key, &NAMES))));
        };
        let text = as_text(&value).ok_or_else(|| {
            invalid(format!("{key} is {}, and a string or a whole number is needed", value.type_str()))
        })?;
        settings.push((*name, text));
    }
    Ok((settings, commands))
}

/// Settings are texts whatever layer they come from; a list of texts is one with commas.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(&'static str, String)>, String> {
        parse(Path::new("a.toml"), text).map(|(settings, _)| settings).map_err(|e| e.0)
    }

    #[test]
    fn texts_numbers_and_lists_are_read() {
        let settings = parsed("listen = '1.2.3.4:5'\nlease_ms = 700\negress_allow = ['10.0.0.0/8', 'shop']");
        let mut settings = settings.expect("valid");
        settings.sort_unstable();
        let expected = [("egress_allow", "10.0.0.0/8,shop"), ("lease_ms", "700"), ("listen", "1.2.3.4:5")];
        assert_eq!(settings, expected.map(|(name, text)| (name, text.to_owned())));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, says) in [
            ("listn = 'x'", "a.toml: unknown key \"listn\"; did you mean listen?"),
            ("[server]\nlisten = 'x'", "a.toml: unknown key \"server\""),
            ("lease_ms = 1.5", "a.toml: lease_ms is float, and a string or a whole number is needed"),
            ("log = true", "a.toml: log is boolean, and a string or a whole number is needed"),
            ("egress_allow = [1]", "a.toml: egress_allow is array, and a string or a whole number is needed"),
            ("listen = 'x'\nlog = ", "a.toml: line 2: "),
            ("[mcp_stdio.files]\nargs = []", "a.toml: mcp_stdio.files.command is missing"),
            ("log = 'a'\nlog = 'b'", "a.toml: line 2: duplicate key"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.starts_with(says) && !error.contains('\n'), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = load(Some(Path::new("/nowhere/a.toml"))).expect_err("missing");
        assert!(error.0.starts_with("/nowhere/a.toml: "), "{error}");
    }
}
