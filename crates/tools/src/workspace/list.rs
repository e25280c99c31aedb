//! `list_files`: what there is.

use std::fmt::Write as _;

use answerable_core::workspace::MAX_FILES;

use super::{Done, One, not_asked};

impl One<'_> {
    pub(super) async fn list_files(&self) -> Done {
        let prefix = self.prefix()?;
        let most = usize::try_from(MAX_FILES).unwrap_or(usize::MAX);
        let files = self.files.list(self.workspace, prefix, None, most).await.map_err(not_asked)?;
        let mut text = match (files.len(), prefix) {
            (0, "") => "There are no files.".to_owned(),
            (0, prefix) => format!("There are no files whose path begins with {prefix}."),
            (1, _) => "1 file:".to_owned(),
            (count, _) => format!("{count} files:"),
        };
        for file in &files {
            // Writing into a string can't fail.
            let _ = write!(text, "\n{}\t{} bytes, version {}", file.path, file.bytes, file.version);
        }
        Ok(self.answer(text))
    }
}
