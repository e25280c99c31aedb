//! `search_files`: lines that match a regular expression. The engine takes time that grows with the text and the pattern
//! alone, whatever the pattern; both have bounds, and nobody looks on for a call that is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use answerable_core::text;
use answerable_core::tool::ErrorCode;
use answerable_core::workspace::MAX_FILES;
use answerable_ports::FileAt;
use bytes::Bytes;
use regex::{Regex, RegexBuilder};

use super::read::is_binary;
use super::{Done, One, blocking, not_asked, refused};

/// Bytes that a pattern may be long, and take when it is compiled.
const MOST_PATTERN: usize = 4096;
const MOST_COMPILED: usize = 256 << 10;
/// Bytes that the engine may take beside it, for being quick.
const MOST_KEPT: usize = 1 << 20;
/// Bytes of all files that are looked through.
const MOST_BYTES: u64 = 64 << 20;
/// Lines that are shown, and characters of each.
const MOST_HITS: usize = 200;
const LINE_CHARS: usize = 300;
/// Bytes of a line that are looked through at once: half a second's work for the worst pattern.
const PIECE: usize = 16 << 10;
/// Bytes that pieces of a line have in common.
const OVERLAP: usize = 1 << 10;

impl One<'_> {
    pub(super) async fn search_files(&self) -> Done {
        let (pattern, prefix) = (compile(self.text("pattern")?)?, self.prefix()?);
        let most = usize::try_from(MAX_FILES).unwrap_or(usize::MAX);
        let files = self.files.list(self.workspace, prefix, None, most).await.map_err(not_asked)?;
        let over = Over::default();
        let mut found = Found::default();
        let mut rest = within_bounds(&files);
        while !rest.is_empty() && found.hits.len() < MOST_HITS {
            let contents = self.files.contents(self.call.tenant_id, rest).await.map_err(not_asked)?;
            let (now, later) = rest.split_at(contents.len().clamp(1, rest.len()));
            let some = now.iter().map(|file| file.path.to_string()).zip(contents).collect();
            found = self.look_through(found, some, pattern.clone(), over.flag()).await?;
            rest = later;
        }
        found.is_cut |= found.files < files.len();
        Ok(self.answer(found.told(files.len())))
    }

    /// Some files, as soon as not too many others are looked through.
    async fn look_through(
        &self,
        mut found: Found,
        files: Vec<(String, Bytes)>,
        pattern: Regex,
        over: Arc<AtomicBool>,
    ) -> Done<Found> {
        let turn = Arc::clone(self.searches).acquire_owned().await;
        let turn = turn.map_err(|_| refused(ErrorCode::Internal, "the server looks for nothing any more"))?;
        blocking(move || {
            for (path, content) in files {
                if found.hits.len() < MOST_HITS {
                    found.look(&path, &content, &pattern, &over);
                }
            }
            drop(turn);
            Ok(found)
        })
        .await
    }
}

/// As many of the first files as may be looked through.
fn within_bounds(files: &[FileAt]) -> &[FileAt] {
    let mut bytes = 0;
    let fits = |file: &&FileAt| {
        bytes += file.bytes;
        bytes <= MOST_BYTES
    };
    &files[..files.iter().take_while(fits).count()]
}

/// Dropped with its call: then nobody wants to know any more.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Over {
    fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn compile(pattern: &str) -> Done<Regex> {
    let wrong = |words: String| refused(ErrorCode::InvalidArguments, words);
    if pattern.is_empty() || pattern.len() > MOST_PATTERN {
        return Err(wrong(format!("pattern must have 1 to {MOST_PATTERN} bytes")));
    }
    let built = RegexBuilder::new(pattern).size_limit(MOST_COMPILED).dfa_size_limit(MOST_KEPT).build();
    built.map_err(|error| wrong(format!("pattern is no regular expression: {error}")))
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    hits: Vec<String>,
    files: usize,
    binary: usize,
    is_cut: bool,
}

impl Found {
    /// Looks through a file, as long as it isn't `over`.
    fn look(&mut self, path: &str, content: &[u8], pattern: &Regex, over: &AtomicBool) {
        self.files += 1;
        if is_binary(content) {
            self.binary += 1;
            return;
        }
        let whole = String::from_utf8_lossy(content);
        for (number, line) in (1..).zip(whole.lines()) {
            if over.load(Ordering::Relaxed) {
                return;
            }
            let Some(at) = find(line, pattern, over) else { continue };
            if self.hits.len() >= MOST_HITS {
                self.is_cut = true;
                return;
            }
            self.hits.push(text::without_nul(&format!("{path}:{number}: {}", around(line, at))));
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

/// Where a line matches first.
fn find(line: &str, pattern: &Regex, over: &AtomicBool) -> Option<usize> {
    let pieces = pieces(line).take_while(|_| !over.load(Ordering::Relaxed));
    pieces.filter_map(|(from, piece)| Some(from + pattern.find(piece)?.start())).next()
}

/// A line in pieces, and where each begins: one, for most lines.
fn pieces(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let from = next?;
        let end = line.floor_char_boundary(from + PIECE);
        next = (end < line.len()).then(|| line.floor_char_boundary(end - OVERLAP));
        Some((from, &line[from..end]))
    })
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
            found.look(path, content.as_bytes(), &pattern, &AtomicBool::new(false));
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
    fn long_lines_are_looked_through_in_pieces_that_meet() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let line = "aöb".repeat(length).chars().take(length).collect::<String>();
            let (mut end, mut count) = (0, 0);
            for (from, piece) in pieces(&line) {
                assert!(from <= end && (from == 0 || from + OVERLAP <= end + 4) && piece.len() <= PIECE);
                (end, count) = (from + piece.len(), count + 1);
            }
            assert_eq!((end, count > 1), (line.len(), line.len() > PIECE));
        }
        // One that lies across the end of a piece.
        let long = format!("{}NEEDLE{}", "x".repeat(PIECE - 3), "x".repeat(PIECE));
        assert!(found(&[("a", &long)], "NEEDLE$|NEEDLE").contains("NEEDLE"));
    }

    #[test]
    fn nobody_looks_on_for_a_call_that_is_over() {
        let (over, mut found) = (Over::default(), Found::default());
        let flag = over.flag();
        let pattern = compile("x").expect("a pattern");
        found.look("a", b"x\nx", &pattern, &flag);
        assert_eq!(found.hits.len(), 2);
        drop(over);
        found.look("a", b"x\nx", &pattern, &flag);
        assert_eq!(found.hits.len(), 2);
        assert_eq!(find("x", &pattern, &flag), None);
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
