//! A workspace in memory, for one run. It breaks when it is told to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use answerable_core::id::{ArtifactId, CallId, RunId, TenantId};
use answerable_core::workspace::{FilePath, Seen};
use answerable_ports::{
    Author, BlobHash, CallOutcome, Expected, FileAt, FilesCommitted, StoreError, Workspace, WorkspaceCommit,
    WorkspaceStore, given_at_once,
};
use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;

/// What goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mishap {
    #[default]
    None,
    /// Nothing answers.
    Away,
    /// Changes are made, and the answer is lost.
    AnswerLost,
    /// Somebody changes the file between the look and the change.
    Overtaken,
}

#[derive(Default)]
pub(super) struct Shelf(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    version: i64,
    files: BTreeMap<String, (i64, Bytes)>,
    seen: BTreeMap<String, Option<i64>>,
    calls: BTreeMap<CallId, CallOutcome>,
    artifacts: BTreeMap<ArtifactId, (String, Bytes)>,
    mishap: Mishap,
    /// How often contents were asked for.
    asked_contents: usize,
}

impl Inner {
    fn put(&mut self, path: &str, content: Bytes) -> i64 {
        self.version += 1;
        self.files.insert(path.to_owned(), (self.version, content));
        self.version
    }

    fn at(&self, path: &str) -> Option<FileAt> {
        let (version, content) = self.files.get(path)?;
        Some(FileAt {
            path: FilePath::parse(path).expect("a path"),
            version: *version,
            bytes: content.len() as u64,
            hash: BlobHash([u8::try_from(*version).expect("few versions"); 32]),
            media_type: "text/plain; charset=utf-8".into(),
            updated_at: DateTime::UNIX_EPOCH,
            updated_by: "key_1".into(),
        })
    }
}

impl Shelf {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panicked")
    }

    fn asked(&self) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let inner = self.inner();
        if inner.mishap == Mishap::Away { Err(StoreError::Away("gone".into())) } else { Ok(inner) }
    }

    /// Somebody else writes a file.
    pub(super) fn put(&self, path: &str, content: impl Into<Bytes>) -> i64 {
        self.inner().put(path, content.into())
    }

    pub(super) fn delete(&self, path: &str) {
        self.inner().files.remove(path);
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        let content = self.inner().files.get(path)?.1.to_vec();
        Some(String::from_utf8(content).expect("text"))
    }

    pub(super) fn keep(&self, id: ArtifactId, media_type: &str, content: impl Into<Bytes>) {
        self.inner().artifacts.insert(id, (media_type.to_owned(), content.into()));
    }

    /// How often contents were asked for.
    pub(super) fn asked_contents(&self) -> usize {
        self.inner().asked_contents
    }

    pub(super) fn suffer(&self, mishap: Mishap) {
        self.inner().mishap = mishap;
    }
}

#[async_trait]
impl WorkspaceStore for Shelf {
    async fn file(&self, _: Workspace, path: &FilePath) -> Result<Option<FileAt>, StoreError> {
        Ok(self.asked()?.at(path.as_str()))
    }

    async fn list(
        &self,
        _: Workspace,
        prefix: &str,
        _: Option<&str>,
        limit: usize,
    ) -> Result<Vec<FileAt>, StoreError> {
        let inner = self.asked()?;
        let paths = inner.files.keys().filter(|path| path.starts_with(prefix));
        Ok(paths.take(limit).filter_map(|path| inner.at(path)).collect())
    }

    async fn snapshot(&self, workspace: Workspace) -> Result<Vec<FileAt>, StoreError> {
        self.list(workspace, "", None, usize::MAX).await
    }

    async fn contents(&self, _: TenantId, files: &[FileAt]) -> Result<Vec<Bytes>, StoreError> {
        let mut inner = self.asked()?;
        inner.asked_contents += 1;
        let held = |file: &FileAt| {
            let found = inner.files.values().find(|(version, _)| *version == file.version);
            found.map(|(_, content)| content.clone()).ok_or_else(|| StoreError::Broken("no content".into()))
        };
        files[..given_at_once(files)].iter().map(held).collect()
    }

    async fn seen_many(&self, _: Workspace, _: RunId, paths: &[FilePath]) -> Result<Vec<Seen>, StoreError> {
        let inner = self.asked()?;
        let seen = |path: &FilePath| match inner.seen.get(path.as_str()) {
            None => Seen::Never,
            Some(None) => Seen::Absent,
            Some(Some(version)) => Seen::Version(*version),
        };
        Ok(paths.iter().map(seen).collect())
    }

    async fn saw(
        &self,
        _: Workspace,
        _: RunId,
        path: &FilePath,
        version: Option<i64>,
    ) -> Result<(), StoreError> {
        self.asked()?.seen.insert(path.to_string(), version);
        Ok(())
    }

    async fn outcome(&self, _: TenantId, call: CallId) -> Result<Option<CallOutcome>, StoreError> {
        Ok(self.asked()?.calls.get(&call).cloned())
    }

    async fn commit(&self, commit: WorkspaceCommit) -> Result<FilesCommitted, StoreError> {
        let mut inner = self.asked()?;
        let Author::Call { call_id, output, .. } = commit.by else { panic!("a tool commits as its call") };
        let [change] = commit.changes.as_slice() else { panic!("one change") };
        let path = change.path.as_str();
        if inner.mishap == Mishap::Overtaken {
            inner.put(path, Bytes::from_static(b"somebody's"));
        }
        let found = inner.files.get(path).map(|(version, _)| *version);
        let is_as_expected = match change.expected {
            Expected::Absent => found.is_none(),
            Expected::Version(version) => found == Some(version),
            other => panic!("a tool is based on what it saw, not on {other:?}"),
        };
        if !is_as_expected {
            let (path, expected) = (change.path.clone(), change.expected);
            return Ok(FilesCommitted::Conflict { path, expected, found });
        }
        let content = change.content.clone().expect("a content").bytes;
        let version = inner.put(path, content);
        inner.seen.insert(path.to_owned(), Some(version));
        inner.calls.insert(call_id, CallOutcome { version, output });
        if inner.mishap == Mishap::AnswerLost {
            return Err(StoreError::Away("the answer was lost".into()));
        }
        Ok(FilesCommitted::Stored { version })
    }

    async fn artifact(
        &self,
        _: TenantId,
        _: RunId,
        id: ArtifactId,
    ) -> Result<Option<(String, Bytes)>, StoreError> {
        Ok(self.asked()?.artifacts.get(&id).cloned())
    }
}
