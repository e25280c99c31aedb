//! `[mcp_stdio.NAME]`: commands that tenants may name as their MCP servers. They have no layer but the file: what this
//! machine runs is said where its operator can read it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use answerable_tools::StdioCommand;
use secrecy::SecretString;
use toml::{Table, Value};

use super::unknown::did_you_mean;

/// The table's name in the file.
pub(crate) const TABLE: &str = "mcp_stdio";
const KEYS: [&str; 4] = ["command", "args", "env", "cwd"];
/// Longest name of a command.
const LONGEST_NAME: usize = 64;

/// The commands by their names.
pub(crate) type Commands = BTreeMap<String, StdioCommand>;

/// Reads the table. An error says where it is wrong, and repeats no value: `env` may hold secrets.
pub(crate) fn read(value: &Value) -> Result<Commands, String> {
    let Value::Table(table) = value else { return Err(format!("{TABLE} is no table: write [{TABLE}.NAME]")) };
    table.iter().map(|(name, value)| Ok((name.clone(), command(name, value)?))).collect()
}

fn command(name: &str, value: &Value) -> Result<StdioCommand, String> {
    let place = format!("{TABLE}.{name}");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        return Err(format!(
            "{place} is no name: 1 to {LONGEST_NAME} letters, digits, `_` and `-` are needed"
        ));
    }
    let Value::Table(table) = value else { return Err(format!("{place} is no table: write [{place}]")) };
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("{place} has an unknown key {key:?}{}", did_you_mean(key, &KEYS)));
    }
    let command = text(table, &place, "command")?.filter(|text| !text.is_empty());
    let cwd = text(table, &place, "cwd")?.map(PathBuf::from);
    if cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
        return Err(format!("{place}.cwd is no absolute path"));
    }
    Ok(StdioCommand {
        command: command.ok_or_else(|| format!("{place}.command is missing: the program to run"))?,
        args: args(table, &place)?,
        env: env(table, &place)?,
        cwd,
    })
}

fn text(table: &Table, place: &str, key: &str) -> Result<Option<String>, String> {
    let Some(value) = table.get(key) else { return Ok(None) };
    fit(value)
        .map(Some)
        .ok_or_else(|| format!("{place}.{key} is {}, and a string is needed", value.type_str()))
}

/// A string that can be handed to a process.
fn fit(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.contains('\0')).map(str::to_owned)
}

fn args(table: &Table, place: &str) -> Result<Vec<String>, String> {
    let Some(value) = table.get("args") else { return Ok(Vec::new()) };
    let items = value.as_array().and_then(|items| items.iter().map(fit).collect());
    items.ok_or_else(|| format!("{place}.args is no list of strings"))
}

fn env(table: &Table, place: &str) -> Result<BTreeMap<String, SecretString>, String> {
    let Some(value) = table.get("env") else { return Ok(BTreeMap::new()) };
    let variables = value.as_table().ok_or_else(|| format!("{place}.env is no table of strings"))?;
    let one = |(name, value): (&String, &Value)| {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!("{place}.env has a variable that can't be named {name:?}"));
        }
        let value = fit(value).ok_or_else(|| format!("{place}.env.{name} is no string"))?;
        Ok((name.clone(), value.into()))
    };
    variables.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn parsed(text: &str) -> Result<Commands, String> {
        let table: Table = text.parse().expect("TOML");
        read(&table["mcp_stdio"])
    }

    #[test]
    fn commands_are_read() {
        let commands = parsed(
            "[mcp_stdio.files]\ncommand = 'node'\nargs = ['a.js', '/srv']\ncwd = '/srv'\nenv = { API_KEY = 'k' }\n\
             [mcp_stdio.time-2]\ncommand = '/usr/bin/mcp-time'",
        )
        .expect("valid");
        let files = &commands["files"];
        assert_eq!(
            (files.command.as_str(), files.args.as_slice()),
            ("node", ["a.js".to_owned(), "/srv".into()].as_slice())
        );
        assert_eq!(
            (files.cwd.as_deref(), files.env["API_KEY"].expose_secret()),
            (Some("/srv".as_ref()), "k")
        );
        let time = &commands["time-2"];
        assert!(time.args.is_empty() && time.env.is_empty() && time.cwd.is_none());
        assert!(!format!("{files:?}").contains("\"k\""));
    }

    #[test]
    fn what_is_wrong_is_said_and_no_value_repeated() {
        for (text, says) in [
            ("mcp_stdio = 'hush'", "mcp_stdio is no table: write [mcp_stdio.NAME]"),
            ("[mcp_stdio]\nfiles = 'hush'", "mcp_stdio.files is no table: write [mcp_stdio.files]"),
            ("[mcp_stdio.files]", "mcp_stdio.files.command is missing"),
            ("[mcp_stdio.files]\ncommand = ''", "mcp_stdio.files.command is missing"),
            ("[mcp_stdio.files]\ncommand = 5", "mcp_stdio.files.command is integer, and a string is needed"),
            (
                "[mcp_stdio.files]\ncomand = 'hush'",
                "mcp_stdio.files has an unknown key \"comand\"; did you mean command?",
            ),
            ("[mcp_stdio.'a b']\ncommand = 'x'", "mcp_stdio.a b is no name"),
            ("[mcp_stdio.f]\ncommand = 'x'\nargs = 'hush'", "mcp_stdio.f.args is no list of strings"),
            ("[mcp_stdio.f]\ncommand = 'x'\nargs = ['a', 5]", "mcp_stdio.f.args is no list of strings"),
            ("[mcp_stdio.f]\ncommand = 'x'\ncwd = 'hush'", "mcp_stdio.f.cwd is no absolute path"),
            ("[mcp_stdio.f]\ncommand = 'x'\nenv = ['hush']", "mcp_stdio.f.env is no table of strings"),
            ("[mcp_stdio.f]\ncommand = 'x'\nenv = { A = 5 }", "mcp_stdio.f.env.A is no string"),
            ("[mcp_stdio.f]\ncommand = 'x'\nenv = { 'A=B' = 'hush' }", "mcp_stdio.f.env has a variable"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.starts_with(says) && !error.contains("hush"), "{text:?}: {error}");
        }
    }
}
