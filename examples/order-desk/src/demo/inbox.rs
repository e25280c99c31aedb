//! The inbox: customers' messages, one plain text file each.

use std::path::Path;

use super::Trouble;

/// A customer's message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The file's name without its ending: what the message is known by everywhere.
    pub(super) id: String,
    pub(super) text: String,
}

impl Message {
    /// The headers' `From`.
    pub(super) fn from(&self) -> &str {
        self.text.lines().find_map(|line| line.strip_prefix("From:")).unwrap_or("somebody").trim()
    }

    /// What comes after the headers.
    pub(super) fn body(&self) -> &str {
        self.text.split_once("\n\n").map_or(self.text.as_str(), |(_, body)| body).trim()
    }
}

/// Reads the inbox, in the order of the files' names. Files that are added are played too.
pub(super) fn read(folder: &Path) -> Result<Vec<Message>, Trouble> {
    let trouble = |error: std::io::Error| {
        Trouble::new(format!("the inbox {} can't be read: {error}", folder.display()))
    };
    let mut messages = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(trouble)? {
        let path = entry.map_err(trouble)?.path();
        if path.extension().is_some_and(|ending| ending == "txt")
            && let Some(id) = path.file_stem().and_then(|stem| stem.to_str())
        {
            messages
                .push(Message { id: id.to_owned(), text: std::fs::read_to_string(&path).map_err(trouble)? });
        }
    }
    messages.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(messages)
}
