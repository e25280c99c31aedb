//! What a run may overwrite: what it has seen as it is.

use std::fmt;

/// What a run knows of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Never,
    /// That there was no file.
    Absent,
    /// The file of this version.
    Version(i64),
}

/// A change would overwrite what the run has not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clash {
    /// What the run knows.
    pub seen: Seen,
    /// The version that is there; `None`: no file.
    pub found: Option<i64>,
}

impl Seen {
    /// Whether the run may replace the whole of what is there (`found`): it has seen it, or there is nothing to lose.
    ///
    /// # Errors
    /// It would overwrite what it has not seen.
    pub fn may_replace(self, found: Option<i64>) -> Result<(), Clash> {
        match (self, found) {
            (Self::Never | Self::Absent, None) => Ok(()),
            (Self::Version(seen), Some(found)) if seen == found => Ok(()),
            (seen, found) => Err(Clash { seen, found }),
        }
    }

    /// Whether the run may change a part of the file that is there, and says what stood in its place: it need not have
    /// seen the file, but if it has, then as it is.
    ///
    /// # Errors
    /// Somebody changed what it has seen.
    pub fn may_edit(self, found: i64) -> Result<(), Clash> {
        match self {
            Self::Never => Ok(()),
            seen => seen.may_replace(Some(found)),
        }
    }
}

impl fmt::Display for Clash {
    /// For the model: both versions, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.seen, self.found) {
            (Seen::Never, Some(found)) => {
                write!(f, "it exists (version {found}) and you have not read it; read it first")
            }
            (Seen::Absent, Some(found)) => write!(
                f,
                "somebody made it meanwhile: you saw no file, and now it has version {found}; read it first"
            ),
            (Seen::Version(seen), Some(found)) => write!(
                f,
                "somebody changed it meanwhile: you last saw version {seen}, and now it has version {found}; read it again"
            ),
            (Seen::Version(seen), None) => write!(
                f,
                "somebody deleted it meanwhile: you last saw version {seen}, and now there is no file; read it again to see that"
            ),
            (Seen::Never | Seen::Absent, None) => f.write_str("there is no file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_seen_as_it_is_may_be_overwritten() {
        use Seen::{Absent, Never, Version};
        for (seen, found, may) in [
            (Never, None, true),
            (Never, Some(1), false),
            (Absent, None, true),
            (Absent, Some(1), false),
            (Version(1), None, false),
            (Version(1), Some(1), true),
            (Version(1), Some(2), false),
            (Version(2), Some(1), false),
        ] {
            assert_eq!(seen.may_replace(found).is_ok(), may, "{seen:?} {found:?}");
        }
        assert!(Never.may_edit(3).is_ok() && Version(3).may_edit(3).is_ok());
        assert!(Absent.may_edit(3).is_err() && Version(2).may_edit(3).is_err());
    }

    #[test]
    fn a_clash_names_both_versions() {
        let words = Seen::Version(3).may_replace(Some(5)).expect_err("a clash").to_string();
        assert!(words.contains("version 3") && words.contains("version 5"), "{words}");
    }
}
