//! Commits what a command changed, under the versions that it was given.

use std::sync::atomic::Ordering;

use answerable_core::tool::{Attempt, ErrorCode, Output};
use answerable_core::workspace::FilePath;
use answerable_ports::{
    Author, Came, Change, Expected, FilesCommitted, NewContent, StoreError, StoredArtifact, WorkspaceCommit,
};
use answerable_sandbox::Ended;

use super::bring::{Copy, blocking};
use super::found::{Changed, Changes, Unfit, changes};
use super::{Done, One, broken, not_asked, refused, told};

impl One<'_> {
    /// The command ended by itself.
    pub(super) async fn keep(&self, copy: Copy, code: i32, ended: &Ended) -> Done {
        let Copy { folder, files } = copy;
        let found = blocking(move || Ok(changes(&folder, &files))).await.map_err(|error| broken(&error))?;
        let found = match found {
            Ok(found) => found,
            Err(Unfit::OverLimit(words)) => {
                return self.not_kept(code, ended, ErrorCode::InvalidArguments, &words);
            }
            Err(Unfit::Failed(error)) => return Err(broken(&error)),
        };
        let output = told::ended(code, ended, &found);
        if found.files.is_empty() {
            return Ok(self.answer(&output));
        }
        if let Some(words) = self.clash(&found).await? {
            return self.not_kept(code, ended, ErrorCode::Conflict, &words);
        }
        self.may_have_acted.store(true, Ordering::Relaxed);
        let committed = self.files().commit(self.commit(found, output.clone())).await.map_err(maybe_done)?;
        match committed {
            FilesCommitted::Stored { .. } => Ok(self.answer(&output)),
            FilesCommitted::Repeated(outcome) => Ok(self.answer(&outcome.output)),
            FilesCommitted::Conflict { path, expected, found } => {
                self.not_kept(code, ended, ErrorCode::Conflict, &changed_under(&path, expected, found))
            }
            FilesCommitted::InTheWay { file, within } => {
                let words = format!("{file} is a file, so {within} can't be in a folder of that name");
                self.not_kept(code, ended, ErrorCode::Conflict, &words)
            }
            FilesCommitted::OverLimit(words) => {
                self.not_kept(code, ended, ErrorCode::InvalidArguments, &words)
            }
            FilesCommitted::Full(words) => self.not_kept(code, ended, ErrorCode::Unavailable, &words),
            FilesCommitted::NoWorkspace => {
                self.not_kept(code, ended, ErrorCode::NotFound, "the workspace was deleted")
            }
        }
    }

    /// It would change a file that somebody changed since the run last saw it, whatever the command was given.
    async fn clash(&self, found: &Changes) -> Done<Option<String>> {
        let known = |file: &Changed| Some((file.path.clone(), file.before.as_ref()?.version));
        let (paths, versions): (Vec<FilePath>, Vec<i64>) = found.files.iter().filter_map(known).unzip();
        if paths.is_empty() {
            return Ok(None);
        }
        let seen = self.files().seen_many(self.workspace(), self.call.run_id, &paths).await;
        let seen = seen.map_err(not_asked)?;
        let mut clashes = paths.iter().zip(versions).zip(seen).filter_map(|((path, version), seen)| {
            // A file that the run never saw was shown to the command, of just this version.
            let clash = seen.may_edit(version).err()?;
            Some(format!("{path}: {clash}"))
        });
        Ok(clashes.next())
    }

    fn commit(&self, found: Changes, output: String) -> WorkspaceCommit {
        let change = |Changed { path, before, after }| Change {
            path,
            expected: before.map_or(Expected::Absent, |before| Expected::Version(before.version)),
            content: after.map(|bytes| NewContent { bytes, media_type: None }),
        };
        WorkspaceCommit {
            workspace: self.workspace(),
            by: Author::Call { run_id: self.call.run_id, call_id: self.call.call_id, output },
            changes: found.files.into_iter().map(change).collect(),
        }
    }

    /// It ran, and its folder can't become the workspace. Without the network that is as if it had not run.
    fn not_kept(&self, code: i32, ended: &Ended, why: ErrorCode, words: &str) -> Done {
        let told = told::not_kept(code, ended, words);
        if self.spec.network { Ok(self.answer(&told)) } else { Err(refused(why, told::cut(&told))) }
    }

    /// Text under the tool's output limit, and the whole of it where that is longer.
    pub(super) fn answer(&self, text: &str) -> Came {
        let output = Output::limited(text, &self.call.tool.output, self.call.artifact_id);
        let kept = output.needs_artifact().then(|| StoredArtifact {
            id: self.call.artifact_id,
            call_id: self.call.call_id,
            media_type: "text/plain; charset=utf-8".into(),
            content: text.to_owned().into(),
        });
        Came { attempt: Attempt::Succeeded(output), artifacts: kept.into_iter().collect() }
    }
}

/// Somebody was quicker while the command ran.
fn changed_under(path: &FilePath, expected: Expected, found: Option<i64>) -> String {
    let named = |version: Option<i64>| version.map_or("no file".into(), |at| format!("version {at}"));
    let before = if let Expected::Version(version) = expected { Some(version) } else { None };
    format!(
        "{path}: somebody changed it while the command ran: from {} to {}; read it again",
        named(before),
        named(found)
    )
}

/// The store didn't answer when it was told to write.
fn maybe_done(error: StoreError) -> Attempt {
    match error {
        StoreError::Away(why) => {
            tracing::warn!(why, "it is not known whether a command's changes were written");
            let message =
                "the files could not be reached, and it is not known whether the changes were written";
            Attempt::Unclear(ErrorCode::Unavailable, message.into())
        }
        broken @ StoreError::Broken(_) => not_asked(broken),
    }
}
