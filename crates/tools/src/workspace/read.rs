//! `read_file`: lines of a text file with their numbers.

use answerable_core::text;
use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_core::workspace::FilePath;
use answerable_ports::{Came, FileAt};
use bytes::Bytes;

use super::page::{Page, page};
use super::{Done, One, not_asked, refused};

/// Lines that are shown where the call doesn't say.
const LINES: usize = 2000;
/// A file with a NUL in so many first bytes is taken for binary.
const LOOKED_AT: usize = 8 << 10;

impl One<'_> {
    pub(super) async fn read_file(&self) -> Done {
        let path = self.path()?;
        let from = self.number("from_line")?.unwrap_or(1).max(1);
        let lines = self.number("lines")?.unwrap_or(LINES);
        let Some(file) = self.files.file(self.workspace, &path).await.map_err(not_asked)? else {
            self.saw(&path, None).await?;
            return Err(no_file(&path));
        };
        let content = self.files.content(self.call.tenant_id, &file).await.map_err(not_asked)?;
        let shown = self.lines_of(&file, &content, from, lines);
        // Also what can't be shown is known from here on: the run may write something else in its place.
        self.saw(&path, Some(file.version)).await?;
        shown
    }

    fn lines_of(&self, file: &FileAt, content: &Bytes, from: usize, lines: usize) -> Done {
        if is_binary(content) {
            let what = format!("{} is no text: {}, {} bytes", file.path, file.media_type, file.bytes);
            return Err(refused(ErrorCode::InvalidArguments, what));
        }
        let text = String::from_utf8_lossy(content);
        let text = text::without_nul(text.strip_prefix('\u{feff}').unwrap_or(&text));
        let page = page(&text, from, lines, self.call.tool.output.max_chars);
        if page.of == 0 {
            let empty = format!("[{}: an empty file, version {}]", file.path, file.version);
            return Ok(Attempt::Succeeded(Output::plain(empty)).into());
        }
        if from > page.of {
            let words = format!("{} has {} lines; there is no line {from}", file.path, page.of);
            return Err(refused(ErrorCode::InvalidArguments, words));
        }
        Ok(shown(file, from, page))
    }

    /// The run knows this of the path.
    async fn saw(&self, path: &FilePath, version: Option<i64>) -> Done<()> {
        self.files.saw(self.workspace, self.call.run_id, path, version).await.map_err(not_asked)
    }
}

pub(super) fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(LOOKED_AT)].contains(&0)
}

pub(super) fn no_file(path: &FilePath) -> Attempt {
    refused(ErrorCode::NotFound, format!("there is no file {path}"))
}

/// The lines, and below them where in the file they are: that isn't counted.
fn shown(file: &FileAt, from: usize, page: Page) -> Came {
    let Page { shown: mut content, last, of, cut } = page;
    let chars = text::chars(&content);
    if cut > 0 {
        content.push_str(&format!("\n[line {last} goes on for {cut} characters that don't fit]\n"));
    }
    content.push_str(&format!("[{}, version {}: lines {from} to {last} of {of}", file.path, file.version));
    content.push_str(&if last < of { format!("; the next is from_line {}]", last + 1) } else { "]".into() });
    Attempt::Succeeded(Output { content, chars, truncated: false, artifact_id: None, too_large: false })
        .into()
}
