//! Names that nobody knows, and what was probably meant.

use super::Invalid;
use super::names::{FAULT_VARIABLES, NAMES, OTHER_VARIABLES, variable};

/// Least likeness (0 to 1) at which a name is worth suggesting.
const ALIKE: f64 = 0.6;
const PREFIX: &str = "ANSWERABLE_";

/// Refuses a variable that begins with `ANSWERABLE_` and means nothing.
pub(crate) fn refuse_unknown_variables<'a>(variables: impl Iterator<Item = &'a str>) -> Result<(), Invalid> {
    let others = OTHER_VARIABLES.iter().chain(FAULT_VARIABLES).map(|name| (*name).to_owned());
    let known: Vec<String> = NAMES.iter().map(|name| variable(name)).chain(others).collect();
    let mut unknown: Vec<&str> = variables
        .filter(|name| name.starts_with(PREFIX) && !known.iter().any(|known| known == name))
        .collect();
    unknown.sort_unstable();
    match unknown.first() {
        None => Ok(()),
        Some(name) => {
            Err(Invalid(format!("unknown environment variable {name}{}", did_you_mean(name, &known))))
        }
    }
}

/// `; did you mean X?`, if one of `known` is like `name`. What all our variables begin with makes none alike.
pub(crate) fn did_you_mean<S: AsRef<str>>(name: &str, known: &[S]) -> String {
    let core = |name: &str| {
        let name = name.to_uppercase();
        name.strip_prefix(PREFIX).map(str::to_owned).unwrap_or(name)
    };
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(&core(name), &core(known));
    known
        .iter()
        .map(|known| (likeness(known.as_ref()), known.as_ref()))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, best)| format!("; did you mean {best}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_refused_with_a_hint() {
        for (name, hint) in [
            ("ANSWERABLE_LISTN", "; did you mean ANSWERABLE_LISTEN?"),
            ("ANSWERABLE_LEASE", "; did you mean ANSWERABLE_LEASE_MS?"),
            ("ANSWERABLE_DATABASE_URL", "; did you mean DATABASE_URL?"),
            ("ANSWERABLE_operator_key", "; did you mean ANSWERABLE_OPERATOR_KEY?"),
            ("ANSWERABLE_FOO", ""),
            ("ANSWERABLE_XYZZY_PLUGH_FROBNICATE", ""),
        ] {
            let error = refuse_unknown_variables(["PATH", name].into_iter()).expect_err(name);
            assert_eq!(error.0, format!("unknown environment variable {name}{hint}"));
        }
    }

    #[test]
    fn known_and_foreign_variables_pass() {
        let names = ["ANSWERABLE_LISTEN", "ANSWERABLE_PG_BIN", "ANSWERABLE_PG_VENV", "OTEL_ANYTHING", "HOME"];
        refuse_unknown_variables(names.into_iter()).expect("all known");
    }
}
