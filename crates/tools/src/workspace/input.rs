//! What a call says. Its input matches the tool's schema; but an agent's author may have written a wider one.

use answerable_core::tool::ErrorCode;
use answerable_core::workspace::{FilePath, read_prefix};

use super::{Done, One, no_path, refused};

impl One<'_> {
    /// A text that must be there.
    pub(super) fn text(&self, name: &str) -> Done<&str> {
        let text = self.call.input.get(name).and_then(|value| value.as_str());
        text.ok_or_else(|| refused(ErrorCode::InvalidArguments, format!("{name} must be a text")))
    }

    /// A whole number, if it is there. Schemas take `2.0` for one, and numbers of any length.
    pub(super) fn number(&self, name: &str) -> Done<Option<usize>> {
        let Some(value) = self.call.input.get(name) else { return Ok(None) };
        let whole = value.as_u64().or_else(|| {
            let digits = value.as_number()?.to_string();
            digits.strip_suffix(".0")?.parse().ok()
        });
        let number = whole.and_then(|number| usize::try_from(number).ok());
        number
            .map(Some)
            .ok_or_else(|| refused(ErrorCode::InvalidArguments, format!("{name} must be a whole number")))
    }

    pub(super) fn path(&self) -> Done<FilePath> {
        FilePath::parse(self.text("path")?).map_err(no_path)
    }

    /// What paths shall begin with; nothing where it isn't said.
    pub(super) fn prefix(&self) -> Done<&str> {
        match self.call.input.get("prefix") {
            Some(_) => read_prefix(self.text("prefix")?).map_err(no_path),
            None => Ok(""),
        }
    }
}
