//! `edit_file`: one place of a text file is replaced.

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_core::workspace::FilePath;

use super::near::near;
use super::read::no_file;
use super::write::clashes;
use super::{Done, One, blocking, not_asked, refused};

/// Places that are named where the old text stands in several.
const PLACES: usize = 10;
/// Places that are counted; of more, it is said that there are more.
const COUNTED: usize = 100;

impl One<'_> {
    pub(super) async fn edit_file(&self) -> Done {
        let (path, old, new) = (self.path()?, self.text("old_text")?, self.text("new_text")?);
        if let Some(outcome) = self.done_before().await? {
            return Ok(self.repeated(&outcome));
        }
        let Some(file) = self.files.file(self.workspace, &path).await.map_err(not_asked)? else {
            return Err(no_file(&path));
        };
        let seen = self.files.seen(self.workspace, self.call.run_id, &path).await.map_err(not_asked)?;
        seen.may_edit(file.version).map_err(|clash| clashes(&path, clash))?;
        let content = self.files.content(self.call.tenant_id, &file).await.map_err(not_asked)?;
        let (of, old, new) = (path.clone(), old.to_owned(), new.to_owned());
        let (edited, line) = blocking(move || edited(&of, &content, &old, &new)).await?;
        let output = format!("Edited {path} at line {line}, {} bytes", edited.len());
        self.change(path, Some(file.version), edited, output).await
    }
}

/// The file with the new text in the place of the old one, and the line of that.
fn edited(path: &FilePath, content: &[u8], old: &str, new: &str) -> Result<(String, usize), Attempt> {
    let Ok(present) = std::str::from_utf8(content) else {
        return Err(refused(ErrorCode::InvalidArguments, format!("{path} is no text in UTF-8")));
    };
    let at = the_place(path, present, old, new)?;
    let edited = format!("{}{new}{}", &present[..at], &present[at + old.len()..]);
    Ok((edited, line_at(present, at)))
}

/// Where the old text begins, if it stands in one place.
fn the_place(path: &FilePath, present: &str, old: &str, new: &str) -> Result<usize, Attempt> {
    let wrong = |words: String| Err(refused(ErrorCode::InvalidArguments, words));
    if old.is_empty() {
        return wrong("old_text is empty; write_file writes a whole file".into());
    }
    if old == new {
        return wrong("old_text and new_text are the same".into());
    }
    let places = places(present, old);
    match places.as_slice() {
        [at] => Ok(*at),
        [] => wrong(format!("old_text does not stand in {path}.{}", near(present, old))),
        several => {
            let lines: Vec<String> =
                several.iter().take(PLACES).map(|at| line_at(present, *at).to_string()).collect();
            let more = if several.len() > PLACES { " and others" } else { "" };
            let count = match several.len() {
                count if count > COUNTED => format!("more than {COUNTED}"),
                count => count.to_string(),
            };
            let lines = lines.join(", ");
            wrong(format!(
                "old_text stands {count} times in {path}, at lines {lines}{more}; give more of what is around it"
            ))
        }
    }
}

/// The places where `old` begins, also within another one; one more than are counted at most.
fn places(present: &str, old: &str) -> Vec<usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() <= COUNTED
        && let Some(at) = present[from..].find(old)
    {
        found.push(from + at);
        from += at + step;
    }
    found
}

/// The line of a place, from 1.
fn line_at(present: &str, at: usize) -> usize {
    present[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_text_must_stand_in_one_place() {
        let path = FilePath::parse("a.txt").expect("a path");
        let place = |present: &str, old: &str| match the_place(&path, present, old, "new") {
            Ok(at) => Ok(at),
            Err(Attempt::Refused(ErrorCode::InvalidArguments, words)) => Err(words),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(place("a door, a key", "a key"), Ok(8));
        assert_eq!(place("größe", "ö"), Ok(2));
        assert!(place("x\naaa", "aa").expect_err("twice").contains("stands 2 times in a.txt, at lines 2, 2"));
        assert!(place("a door", "lamp").expect_err("nowhere").contains("does not stand in a.txt"));
        assert!(place("a", "").is_err() && place("new", "new").is_err());
        let many = "a\n".repeat(40);
        assert!(place(&many, "a").expect_err("many").contains("stands 40 times"));
        assert!(place(&many, "a").expect_err("many").contains("10 and others"));
    }

    #[test]
    fn a_text_that_stands_everywhere_takes_no_longer_than_one_that_stands_twice() {
        let path = FilePath::parse("a.txt").expect("a path");
        let (present, old) = ("a".repeat(200_000), "a".repeat(20_000));
        let started = std::time::Instant::now();
        let refused = the_place(&path, &present, &old, "new").expect_err("everywhere");
        let Attempt::Refused(_, words) = refused else { panic!("{refused:?}") };
        assert!(words.contains("stands more than 100 times"), "{words}");
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }
}
