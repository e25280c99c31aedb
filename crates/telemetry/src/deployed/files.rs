//! The files of `deploy/`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file of YAML, by its path from the project's root.
pub(super) fn yaml(path: &str) -> Value {
    parse(&root().join(path))
}

/// A file of JSON, by its path from the project's root.
pub(super) fn json(path: &str) -> Value {
    parse(&root().join(path))
}

fn parse(path: &Path) -> Value {
    let (text, name) = (text(path), path.display());
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if is_json {
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
    } else {
        serde_yaml_ng::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// Reads all that is JSON or YAML; gives how many files are.
pub(super) fn parsed() -> usize {
    let mut folders = vec![root().join("deploy")];
    let mut count = usize::from(yaml("docker-compose.yml").is_object());
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if ["json", "yml", "yaml"].contains(&extension) {
                assert!(parse(&path).is_object(), "{}", path.display());
                count += 1;
            }
        }
    }
    count
}

/// Every expression of the dashboards, the alerts and their tests.
pub(super) fn expressions() -> Vec<String> {
    let mut found = Vec::new();
    for path in ["deploy/grafana/dashboards/operations.json", "deploy/grafana/dashboards/agents.json"] {
        collect(&json(path), "expr", &mut found);
    }
    collect(&yaml("deploy/prometheus/alerts.yml"), "expr", &mut found);
    collect(&yaml("deploy/prometheus/alerts_test.yml"), "series", &mut found);
    found
}

fn collect(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(name).and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, name, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, name, found)),
        _ => {}
    }
}
