//! The cases that were asked for, out of their files.

use std::fs;
use std::path::{Path, PathBuf};

use answerable_evals::case::Case;
use answerable_evals::{Form, read};
use serde_json::Value;

use crate::Failure;

/// Deepest folder that is looked into.
const DEEPEST: usize = 16;

/// A case and its file.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) case: Case,
    pub(super) file: String,
}

/// Which cases are wanted.
#[derive(Debug, Default)]
pub(super) struct Filter<'a> {
    /// Words of which one stands in the name or in the file's path; none: all.
    pub(super) words: &'a [String],
    /// Tags of which it has one; none: all.
    pub(super) tags: &'a [String],
}

/// Reads all cases in these files and below these folders, in the order of their paths. A file that can't be read is an
/// error even where its case would not be wanted: nobody notices otherwise.
pub(super) fn find(paths: &[PathBuf], filter: &Filter<'_>) -> Result<Vec<Found>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut inside = Vec::new();
            below(path, 0, &mut inside)?;
            files.extend(
                inside.into_iter().map(|file| (name(file.strip_prefix(path).unwrap_or(&file)), file)),
            );
        } else {
            files.push((name(Path::new(path.file_name().unwrap_or_default())), path.clone()));
        }
    }
    let mut found = Vec::new();
    let mut faults = Vec::new();
    for (name, file) in files {
        match case(&file, &name) {
            Ok(one) => found.extend(one),
            Err(fault) => faults.push(fault),
        }
    }
    if let Some(first) = faults.first() {
        let more = if faults.len() > 1 { format!(" (and {} more)", faults.len() - 1) } else { String::new() };
        return Err(Failure::misconfigured(format!("{first}{more}")));
    }
    found.retain(|one| filter.wants(one));
    if found.is_empty() {
        return Err(Failure::misconfigured("there are no such cases"));
    }
    Ok(found)
}

impl Filter<'_> {
    fn wants(&self, one: &Found) -> bool {
        let has_word =
            |word: &String| one.case.name.contains(word.as_str()) || one.file.contains(word.as_str());
        let has_tag = |tag: &String| one.case.tags.contains(tag);
        (self.words.is_empty() || self.words.iter().any(has_word))
            && (self.tags.is_empty() || self.tags.iter().any(has_tag))
    }
}

/// The name of a case that has none of its own: its path below the folder that was named, without its ending.
fn name(path: &Path) -> String {
    path.with_extension("").to_string_lossy().into_owned()
}

fn form(path: &Path) -> Option<Form> {
    match path.extension()?.to_str()? {
        "yaml" | "yml" => Some(Form::Yaml),
        "json" => Some(Form::Json),
        _ => None,
    }
}

/// The files of cases below a folder, sorted; hidden ones are passed over.
fn below(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::misconfigured(format!("{}: {error}", folder.display()));
    if depth > DEEPEST {
        return Err(Failure::misconfigured(format!("{}: the folders go too deep", folder.display())));
    }
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    paths.sort();
    for path in paths {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        match () {
            () if is_hidden => {}
            () if path.is_dir() => below(&path, depth + 1, files)?,
            () if form(&path).is_some() => files.push(path),
            () => {}
        }
    }
    Ok(())
}

/// The case in a file; none in a report that stands among the cases.
fn case(path: &Path, name: &str) -> Result<Option<Found>, String> {
    let file = path.display().to_string();
    let form = form(path).ok_or_else(|| format!("{file}: a case ends with .yaml, .yml or .json"))?;
    let text = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
    if form == Form::Json && is_report(&text) {
        return Ok(None);
    }
    let case = read(&text, form, name).map_err(|fault| format!("{file}: {fault}"))?;
    Ok(Some(Found { case, file }))
}

fn is_report(text: &str) -> bool {
    let value: Option<Value> = serde_json::from_str(text).ok();
    value.is_some_and(|value| value.get("object").is_some_and(|object| object == "eval_report"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = "tags: [TAG]\ninput: hi\nagent: {}\nmodel: [{final: x}]\nexpect: {}\n";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("temporary folder");
        for path in ["b/two.yml", "b/.hidden.yaml", "a/deep/one.yaml"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
            let tag = path.file_stem().expect("a name").to_string_lossy().into_owned();
            fs::write(path, CASE.replace("TAG", &tag)).expect("case");
        }
        fs::write(folder.path().join("report.json"), r#"{"object": "eval_report"}"#).expect("report");
        fs::write(folder.path().join("notes.txt"), "x").expect("notes");
        folder
    }

    fn names(paths: &[PathBuf], words: &[&str], tags: &[&str]) -> Result<Vec<String>, Failure> {
        let owned = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (words, tags) = (owned(words), owned(tags));
        let found = find(paths, &Filter { words: &words, tags: &tags })?;
        Ok(found.into_iter().map(|one| one.case.name).collect())
    }

    #[test]
    fn cases_are_named_by_their_paths_and_come_in_order() {
        let folder = folder();
        let (all, one) = (folder.path().to_owned(), folder.path().join("a/deep/one.yaml"));
        assert_eq!(names(std::slice::from_ref(&all), &[], &[]).expect("found"), ["a/deep/one", "b/two"]);
        assert_eq!(names(&[one], &[], &[]).expect("found"), ["one"]);
        assert_eq!(
            names(std::slice::from_ref(&all), &["deep", "nothing"], &[]).expect("found"),
            ["a/deep/one"]
        );
        assert_eq!(names(std::slice::from_ref(&all), &[], &["two"]).expect("found"), ["b/two"]);
        assert!(names(&[all], &["deep"], &["two"]).is_err(), "both must fit");
    }

    #[test]
    fn a_file_that_is_no_case_stops_all() {
        let folder = folder();
        fs::write(folder.path().join("b/wrong.json"), "{}").expect("file");
        let fault = names(&[folder.path().to_owned()], &["one"], &[]).expect_err("no case");
        assert!(fault.message().is_some_and(|told| told.contains("b/wrong.json: ")), "{fault:?}");
        assert_eq!(fault.status(), 2);
    }
}
