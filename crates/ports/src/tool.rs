//! ToolExecutor: run an approved call, hand back what came of one attempt.

use std::collections::BTreeMap;

use answerable_core::agent::ToolSpec;
use answerable_core::id::{ArtifactId, CallId, RunId, TenantId, WorkspaceId};
use answerable_core::tool::Attempt;
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;

use crate::commit::StoredArtifact;

/// One attempt of a call, with all that it needs.
#[derive(Debug, Clone)]
pub struct PreparedCall {
    /// Whose run it is.
    pub tenant_id: TenantId,
    /// The run.
    pub run_id: RunId,
    /// The files that it may touch.
    pub workspace_id: WorkspaceId,
    /// The call; a reconcile call bears the id of the call that it asks about.
    pub call_id: CallId,
    /// The tool as the agent has it.
    pub tool: ToolSpec,
    /// Its input: an object that matches the tool's schema.
    pub input: Value,
    /// The run's context, for templates.
    pub context: Value,
    /// `Idempotency-Key`: the same on every attempt.
    pub idempotency_key: String,
    /// From 1.
    pub attempt: u32,
    /// Secrets that the tool's templates name; one that is missing here doesn't exist.
    pub secrets: BTreeMap<String, SecretString>,
    /// The tenant's signing secrets (`whsec_…`), the newest first.
    pub signing_secrets: Vec<SecretString>,
    /// `traceparent` header.
    pub traceparent: String,
    /// Where output over the limit is to be kept.
    pub artifact_id: ArtifactId,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Came {
    /// What is known of it.
    pub attempt: Attempt,
    /// What is kept apart: the whole of a long output, what is binary.
    pub artifacts: Vec<StoredArtifact>,
}

impl From<Attempt> for Came {
    fn from(attempt: Attempt) -> Self {
        Self { attempt, artifacts: Vec::new() }
    }
}

/// Runs calls of one kind of tool.
#[async_trait]
pub trait ToolExecutor: Send + Sync {
    /// One attempt, within the tool's timeout. The outcome says what is known of the effect; the artifacts are the whole
    /// of an output that is long, and what is binary. None holds secrets: those that the far side echoes are masked.
    async fn run(&self, call: &PreparedCall) -> Came;

    /// The run has ended, and nobody wants any more what this call does that has left. Where the far side can be told, it
    /// is; the attempt goes on, for what it comes to is a fact.
    fn call_off(&self, _call: CallId) {}
}
