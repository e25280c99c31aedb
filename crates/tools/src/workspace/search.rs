//! `search_files`: lines that match a regular expression. The engine takes time that grows with the text and the pattern
//! alone, whatever the pattern; both have bounds.

use answerable_core::text;
use answerable_core::tool::ErrorCode;
use answerable_core::workspace::MAX_FILES;
use answerable_ports::FileAt;
use bytes::Bytes;
use regex::{Regex, RegexBuilder};

use super::read::is_binary;
use super::{Done, One, not_asked, refused};

/// Bytes that a pattern may be long, and take when it is compiled.
const MOST_PATTERN: usize = 4096;
const MOST_COMPILED: usize = 1 << 20;
/// Bytes of all files that are looked through.
const MOST_BYTES: u64 = 64 << 20;
/// Lines that are shown, and characters of each.
const MOST_HITS: usize = 200;
const LINE_CHARS: usize = 300;

impl One<'_> {
    pub(super) async fn search_files(&self) -> Done {
        let (pattern, prefix) = (compile(self.text("pattern")?)?, self.prefix()?);
        let most = usize::try_from(MAX_FILES).unwrap_or(usize::MAX);
        let files = self.files.list(self.workspace, prefix, None, most).await.map_err(not_asked)?;
        let mut found = Found::default();
        for file in &files {
            if found.hits.len() >= MOST_HITS || found.bytes + file.bytes > MOST_BYTES {
                found.is_cut = true;
                break;
            }
            let content = self.files.content(self.call.tenant_id, file).await.map_err(not_asked)?;
            found = looked_through(found, file.clone(), content, pattern.clone()).await?;
        }
        Ok(self.answer(found.told(files.len())))
    }
}

fn compile(pattern: &str) -> Done<Regex> {
    let wrong = |words: String| refused(ErrorCode::InvalidArguments, words);
    if pattern.is_empty() || pattern.len() > MOST_PATTERN {
        return Err(wrong(format!("pattern must have 1 to {MOST_PATTERN} bytes")));
    }
    let built = RegexBuilder::new(pattern).size_limit(MOST_COMPILED).dfa_size_limit(MOST_COMPILED).build();
    built.map_err(|error| wrong(format!("pattern is no regular expression: {error}")))
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    hits: Vec<String>,
    files: usize,
    bytes: u64,
    binary: usize,
    is_cut: bool,
}

/// One file's lines, where nobody else waits for them.
async fn looked_through(mut found: Found, file: FileAt, content: Bytes, pattern: Regex) -> Done<Found> {
    let looking = tokio::task::spawn_blocking(move || {
        found.look(file.path.as_str(), &content, &pattern);
        found
    });
    looking.await.map_err(|error| {
        tracing::error!(%error, "a search broke off");
        refused(ErrorCode::Internal, "the search broke off")
    })
}

impl Found {
    fn look(&mut self, path: &str, content: &[u8], pattern: &Regex) {
        self.files += 1;
        self.bytes += content.len() as u64;
        if is_binary(content) {
            self.binary += 1;
            return;
        }
        let whole = String::from_utf8_lossy(content);
        for (number, line) in (1..).zip(whole.lines()) {
            let Some(hit) = pattern.find(line) else { continue };
            if self.hits.len() >= MOST_HITS {
                self.is_cut = true;
                return;
            }
            self.hits.push(text::without_nul(&format!("{path}:{number}: {}", around(line, hit.start()))));
        }
    }

    fn told(self, all: usize) -> String {
        let mut text = match self.hits.len() {
            0 => "Nothing matches.".to_owned(),
            _ => self.hits.join("\n"),
        };
        if self.is_cut {
            let (files, hits) = (self.files, self.hits.len());
            text.push_str(&format!(
                "\n[only a part was searched: {files} of {all} files, {hits} lines; search with a narrower prefix or pattern]"
            ));
        }
        if self.binary > 0 {
            text.push_str(&format!("\n[{} files that are no text were left out]", self.binary));
        }
        text
    }
}

/// A line that is short enough, or what is around the match.
fn around(line: &str, at: usize) -> String {
    if text::chars(line) <= LINE_CHARS {
        return line.to_owned();
    }
    let before = line[..at].char_indices().rev().nth(LINE_CHARS / 3).map_or(0, |(start, _)| start);
    let shown = text::head(&line[before..], LINE_CHARS);
    let (front, back) = (before > 0, before + shown.len() < line.len());
    format!("{}{shown}{}", if front { "…" } else { "" }, if back { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], pattern: &str) -> String {
        let pattern = compile(pattern).expect("a pattern");
        let mut found = Found::default();
        for (path, content) in files {
            found.look(path, content.as_bytes(), &pattern);
        }
        found.told(files.len())
    }

    #[test]
    fn lines_are_named_by_file_and_number() {
        let files = [("a.txt", "one red\r\none grey\n"), ("b.txt", "gray"), ("c.bin", "grey\0")];
        let told = found(&files, "gr[ea]y");
        assert_eq!(told, "a.txt:2: one grey\nb.txt:1: gray\n[1 files that are no text were left out]");
        assert_eq!(found(&files[..2], "^green$"), "Nothing matches.");
    }

    #[test]
    fn what_is_found_has_bounds() {
        let many = "x\n".repeat(1000);
        let told = found(&[("a", &many)], "x");
        assert_eq!(told.lines().count(), MOST_HITS + 1);
        assert!(told.contains("only a part was searched"), "{told}");
        let long = format!("{}NEEDLE{}", "ö".repeat(100_000), "ö".repeat(100_000));
        let told = found(&[("a", &long)], "NEEDLE");
        assert!(told.contains("NEEDLE") && told.chars().count() < 400, "{told}");
    }

    #[test]
    fn patterns_that_would_take_long_are_refused_or_quick() {
        for pattern in ["(", "", "(?<", &"a".repeat(MOST_PATTERN + 1), "((a{1000}){1000}){1000}"] {
            assert!(compile(pattern).is_err(), "{pattern:.20}");
        }
        let started = std::time::Instant::now();
        let text = "a".repeat(100_000);
        assert_eq!(found(&[("a", &text)], "(a+)+$b"), "Nothing matches.");
        assert!(started.elapsed().as_secs() < 20);
    }
}
