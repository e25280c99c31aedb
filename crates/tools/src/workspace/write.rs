//! `write_file`, and what both tools that change files have in common.

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_core::workspace::{Clash, FilePath};
use answerable_ports::{
    Author, CallOutcome, Came, Change, Expected, FilesCommitted, NewContent, StoreError, WorkspaceCommit,
};

use super::{Done, One, not_asked, refused};

impl One<'_> {
    pub(super) async fn write_file(&self) -> Done {
        let (path, content) = (self.path()?, self.text("content")?);
        if let Some(outcome) = self.done_before().await? {
            return Ok(self.repeated(&outcome));
        }
        let found = self.files.file(self.workspace, &path).await.map_err(not_asked)?;
        let seen = self.files.seen(self.workspace, self.call.run_id, &path).await.map_err(not_asked)?;
        let version = found.map(|file| file.version);
        seen.may_replace(version).map_err(|clash| clashes(&path, clash))?;
        let verb = if version.is_some() { "Replaced" } else { "Made" };
        let output = format!("{verb} {path}, {} bytes", content.len());
        self.change(path, version, content.to_owned(), output).await
    }

    /// What this very call did when it was sent before.
    pub(super) async fn done_before(&self) -> Done<Option<CallOutcome>> {
        self.files.outcome(self.call.tenant_id, self.call.call_id).await.map_err(not_asked)
    }

    pub(super) fn repeated(&self, outcome: &CallOutcome) -> Came {
        self.answer(told(outcome))
    }

    /// Writes a file that has this version (`None`: that isn't there).
    pub(super) async fn change(
        &self,
        path: FilePath,
        version: Option<i64>,
        content: String,
        output: String,
    ) -> Done {
        let change = Change {
            path: path.clone(),
            expected: version.map_or(Expected::Absent, Expected::Version),
            content: Some(NewContent { bytes: content.into(), media_type: None }),
        };
        let (run_id, call_id) = (self.call.run_id, self.call.call_id);
        let commit = WorkspaceCommit {
            workspace: self.workspace,
            by: Author::Call { run_id, call_id, output: output.clone() },
            changes: vec![change],
        };
        match self.files.commit(commit).await.map_err(maybe_done)? {
            FilesCommitted::Stored { version } => Ok(self.answer(told(&CallOutcome { version, output }))),
            FilesCommitted::Repeated(outcome) => Ok(self.repeated(&outcome)),
            FilesCommitted::Conflict { found, .. } => Err(changed_under(&path, version, found)),
            FilesCommitted::InTheWay { file, within } => {
                let words = format!("{file} is a file, so {within} can't be in a folder of that name");
                Err(refused(ErrorCode::Conflict, words))
            }
            FilesCommitted::OverLimit(words) => {
                Err(refused(ErrorCode::InvalidArguments, format!("{words}; nothing was written")))
            }
            FilesCommitted::Full(words) => {
                Err(refused(ErrorCode::Unavailable, format!("{words} Nothing was written.")))
            }
            FilesCommitted::NoWorkspace => {
                Err(refused(ErrorCode::NotFound, "the workspace was deleted; nothing was written"))
            }
        }
    }
}

/// What the model is told of a change.
fn told(outcome: &CallOutcome) -> String {
    format!("{}. It has version {} now.", outcome.output, outcome.version)
}

/// For the model: it would overwrite what it has not seen.
pub(super) fn clashes(path: &FilePath, clash: Clash) -> Attempt {
    refused(ErrorCode::Conflict, format!("{path}: {clash}. Nothing was written."))
}

/// Somebody was quicker, between the look and the write.
fn changed_under(path: &FilePath, based_on: Option<i64>, found: Option<i64>) -> Attempt {
    let named =
        |version: Option<i64>| version.map_or("no file".into(), |version| format!("version {version}"));
    let words = format!(
        "{path}: somebody changed it just now: from {} to {}; read it again. Nothing was written.",
        named(based_on),
        named(found)
    );
    refused(ErrorCode::Conflict, words)
}

/// The store didn't answer when it was told to write.
fn maybe_done(error: StoreError) -> Attempt {
    match error {
        StoreError::Away(why) => {
            tracing::warn!(why, "it is not known whether a file was written");
            let message = "the files could not be reached, and it is not known whether this was written";
            Attempt::Unclear(ErrorCode::Unavailable, message.into())
        }
        broken @ StoreError::Broken(_) => not_asked(broken),
    }
}
