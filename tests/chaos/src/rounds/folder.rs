//! Where a round writes.

use std::path::{Path, PathBuf};

use super::say;
use crate::stage::{Error, Result};

/// The folder of a round.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl Folder {
    /// The named one, or a temporary one.
    ///
    /// # Errors
    /// It can't be made.
    pub fn make(named: Option<PathBuf>) -> Result<Self> {
        let Some(named) = named else {
            let temporary = tempfile::Builder::new().prefix("answerable-chaos-").tempdir();
            let temporary = temporary.map_err(Error::io("a temporary folder"))?;
            return Ok(Self { path: temporary.path().to_owned(), temporary: Some(temporary) });
        };
        std::fs::create_dir_all(&named).map_err(Error::io(named.display().to_string()))?;
        let path = named.canonicalize().map_err(Error::io(named.display().to_string()))?;
        // An older round's logs would be judged with this one's.
        if path.join(crate::stage::JOURNAL).exists() {
            return Err(Error::says(format!("{} holds another round", path.display())));
        }
        Ok(Self { path, temporary: None })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A temporary folder goes, unless there is something to look into.
    pub fn close(self, green: bool) {
        match self.temporary {
            Some(temporary) if green => drop(temporary),
            temporary => {
                let _ = temporary.map(tempfile::TempDir::keep);
                say(format!("logs: {}", self.path.display()));
            }
        }
    }
}
