//! Where each setting comes from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::mcp_stdio::Commands;
use super::names::{NAMES, flag, variable};
use super::unknown::refuse_unknown_variables;
use super::{Invalid, file};

/// The text of each setting that is set, out of the strongest layer that has it.
#[derive(Debug, Default)]
pub struct Layers {
    found: BTreeMap<&'static str, Found>,
    /// What is set of OpenTelemetry's variables. They have no other layer.
    otel: BTreeMap<String, SecretString>,
    /// Commands that the file names.
    mcp_stdio: Commands,
    /// The variables that say how S3 is reached. They have no other layer.
    aws: Vec<(String, SecretString)>,
}

#[derive(Debug)]
struct Found {
    text: SecretString,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Environment,
    Flag,
}

impl Layers {
    /// Reads the file named by `--config` (or `answerable.toml`), the process's environment, and `flags`:
    /// pairs of a setting's name and its text.
    ///
    /// # Errors
    /// A file that can't be read, and unknown keys and variables.
    pub fn read(config: Option<&Path>, flags: Vec<(&'static str, String)>) -> Result<Self, Invalid> {
        Self::stack(flags, std::env::vars_os(), file::load(config)?)
    }

    /// Puts the layers on one another. An empty variable counts as not set, as compose files leave them.
    pub(crate) fn stack(
        flags: Vec<(&'static str, String)>,
        environment: impl Iterator<Item = (OsString, OsString)>,
        file: Option<file::FileSettings>,
    ) -> Result<Self, Invalid> {
        let mut layers = Self::default();
        if let Some((path, settings, commands)) = file {
            layers.mcp_stdio = commands;
            settings.into_iter().for_each(|(name, text)| layers.set(name, text, Source::File(path.clone())));
        }
        let environment: Vec<(OsString, OsString)> = environment.collect();
        refuse_unknown_variables(environment.iter().filter_map(|(name, _)| name.to_str()))?;
        for name in NAMES {
            let variable = variable(name);
            if let Some((_, text)) = environment.iter().find(|(key, _)| *key == *variable) {
                let text = text.to_str().ok_or_else(|| Invalid(format!("{variable} is not UTF-8")))?;
                if !text.trim().is_empty() {
                    layers.set(name, text.to_owned(), Source::Environment);
                }
            }
        }
        for (name, text) in &environment {
            if let Some(name) = name.to_str().filter(|name| name.starts_with("OTEL_")) {
                let text = text.to_str().ok_or_else(|| Invalid(format!("{name} is not UTF-8")))?;
                layers.otel.insert(name.to_owned(), text.into());
            }
        }
        layers.aws = environment.iter().filter_map(aws_variable).collect();
        flags.into_iter().for_each(|(name, text)| layers.set(name, text, Source::Flag));
        Ok(layers)
    }

    fn set(&mut self, name: &'static str, text: String, source: Source) {
        self.found.insert(name, Found { text: text.into(), source });
    }

    /// Reads a setting with `read`, whose error is a reason that follows the setting's name; `None` if it is
    /// set nowhere.
    pub(crate) fn get<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Invalid> {
        let Some(found) = self.found.get(name) else { return Ok(None) };
        read(found.text.expose_secret().trim())
            .map(Some)
            .map_err(|reason| Invalid(format!("{} {reason}", self.place(name))))
    }

    /// Whether a setting is set anywhere.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.found.contains_key(name)
    }

    /// Commands that tenants may name as their MCP servers.
    pub(crate) fn mcp_stdio(&self) -> &Commands {
        &self.mcp_stdio
    }

    /// The text of one of OpenTelemetry's variables.
    pub(crate) fn otel(&self, name: &str) -> Option<&str> {
        self.otel.get(name).map(|text| text.expose_secret())
    }

    /// The variables that begin with `AWS_`.
    pub(crate) fn aws(&self) -> &[(String, SecretString)] {
        &self.aws
    }

    /// The setting's name as the user wrote it: flag, variable or key of a file.
    pub(crate) fn place(&self, name: &'static str) -> String {
        match self.found.get(name).map(|found| &found.source) {
            Some(Source::Flag) => flag(name),
            Some(Source::File(path)) => format!("{}: {name}", path.display()),
            Some(Source::Environment) | None => variable(name),
        }
    }
}

/// One of AWS's variables, if it is one. Others than ours may be no text, and are of no use then.
fn aws_variable((name, text): &(OsString, OsString)) -> Option<(String, SecretString)> {
    let name = name.to_str().filter(|name| name.starts_with("AWS_"))?;
    Some((name.to_owned(), text.to_str()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(layers: &Layers, name: &'static str) -> Option<String> {
        layers.get(name, |text| Ok(text.to_owned())).expect("read")
    }

    fn variables(pairs: &[(&str, &str)]) -> impl Iterator<Item = (OsString, OsString)> {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn flags_go_before_environment_before_file() {
        let file = |on: bool| {
            on.then(|| (PathBuf::from("a.toml"), vec![("listen", "file".to_owned())], Commands::new()))
        };
        for (flag, variable, has_file, expected, place) in [
            (Some("flag"), Some("env"), true, Some("flag"), "--listen"),
            (None, Some("env"), true, Some("env"), "ANSWERABLE_LISTEN"),
            (None, Some(" "), true, Some("file"), "a.toml: listen"),
            (None, None, true, Some("file"), "a.toml: listen"),
            (Some("flag"), None, false, Some("flag"), "--listen"),
            (None, None, false, None, "ANSWERABLE_LISTEN"),
        ] {
            let environment: Vec<_> = variable.iter().map(|text| ("ANSWERABLE_LISTEN", *text)).collect();
            let flags = flag.iter().map(|text| ("listen", (*text).to_owned())).collect();
            let layers = Layers::stack(flags, variables(&environment), file(has_file)).expect("stacked");
            assert_eq!(text(&layers, "listen").as_deref(), expected);
            assert_eq!(layers.place("listen"), place);
        }
    }

    #[test]
    fn the_database_has_the_variable_that_everybody_uses() {
        let layers = Layers::stack(vec![], variables(&[("DATABASE_URL", "x")]), None).expect("stacked");
        assert_eq!(text(&layers, "database_url").as_deref(), Some("x"));
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let environment = [("ANSWERABLE_LOG".into(), OsString::from_vec(vec![0xff]))];
        let error = Layers::stack(vec![], environment.into_iter(), None).expect_err("not UTF-8");
        assert_eq!(error.0, "ANSWERABLE_LOG is not UTF-8");
    }

    #[test]
    fn secrets_are_not_printed() {
        let layers = Layers::stack(vec![], variables(&[("ANSWERABLE_OPERATOR_KEY", "tell-nobody")]), None);
        assert!(!format!("{:?}", layers.expect("stacked")).contains("tell-nobody"));
    }
}
