//! What an expression of PromQL asks for.

use std::collections::BTreeSet;

/// Names of an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Series.
    pub(super) metrics: BTreeSet<String>,
    /// Labels that are matched or grouped by.
    pub(super) labels: BTreeSet<String>,
}

/// What stands between names and isn't one.
const WORDS: [&str; 6] = ["by", "without", "and", "or", "unless", "on"];

/// Reads an expression of the plain kind that dashboards have: functions, selectors, groups, numbers.
pub(super) fn asked(expression: &str) -> Asked {
    let mut found = Asked::default();
    let mut rest = without_strings(expression);
    // Ranges have no names in them.
    cut(&mut rest, '[', ']', |_| {});
    cut(&mut rest, '{', '}', |matchers| found.labels.extend(names(matchers)));
    for word in ["by", "without"] {
        while let Some(at) = rest.find(&format!("{word} (")) {
            let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
            found.labels.extend(names(&rest[at + word.len()..end]));
            rest.replace_range(at..end, " ");
        }
    }
    let mut parts = rest.as_str();
    while let Some(begin) = parts.find(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
        let name = &parts[begin..];
        let end = name.find(|letter: char| !is_of_name(letter)).unwrap_or(name.len());
        // `1e6` is a number.
        let number = parts[..begin].ends_with(|letter: char| letter.is_ascii_digit());
        let function = name[end..].trim_start().starts_with('(');
        if !number && !function && !WORDS.contains(&&name[..end]) {
            found.metrics.insert(name[..end].to_owned());
        }
        parts = &name[end..];
    }
    found
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn names(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !is_of_name(letter)).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

fn without_strings(text: &str) -> String {
    text.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// Takes out all that stands between two signs.
fn cut(text: &mut String, open: char, close: char, mut seen: impl FnMut(&str)) {
    while let Some(begin) = text.find(open) {
        let end = text[begin..].find(close).map_or(text.len(), |end| begin + end + 1);
        seen(&text[begin..end]);
        text.replace_range(begin..end, "");
    }
}

#[test]
fn names_are_told_apart() {
    let all = asked(
        r#"histogram_quantile(0.5, sum by (le, model) (rate(a_bucket{kind="x, y", b!=""}[5m]))) / sum(c) * 1e6 > 2"#,
    );
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(all, Asked { metrics: set(&["a_bucket", "c"]), labels: set(&["b", "kind", "le", "model"]) });
}
