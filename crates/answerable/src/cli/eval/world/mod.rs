//! The world of one play: a scripted model and scripted tools on loopback.

mod listen;
mod model;
mod tool;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use answerable_evals::case::{Case, Model, Reply};
use answerable_evals::{Answers, Shown};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Failure;

/// What a play's server meets. Dropping it closes it.
#[derive(Debug)]
pub(super) struct World {
    address: SocketAddr,
    stage: Arc<Stage>,
    listening: JoinHandle<()>,
}

/// What is on the stage, and what was seen there.
#[derive(Debug)]
pub(super) struct Stage {
    /// Replies by provider.
    models: HashMap<String, Vec<Reply>>,
    seen: Mutex<Seen>,
    /// Counts what came in, to be waited on.
    changes: watch::Sender<u64>,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Requests to each provider.
    asked: HashMap<String, usize>,
    /// What the tools answer, and what reached them.
    pub(super) answers: Answers,
    /// What the model was shown, request by request.
    pub(super) shown: Vec<Shown>,
    /// What the case does not know how to answer.
    pub(super) troubles: Vec<String>,
}

impl World {
    /// Opens a case's world on a free port.
    pub(super) async fn open(case: &Case) -> Result<Self, Failure> {
        let stage = Arc::new(Stage::of(case));
        let (address, listening) = listen::open(Arc::clone(&stage))
            .await
            .map_err(|error| Failure::new(format!("no port on loopback: {error}")))?;
        Ok(Self { address, stage, listening })
    }

    /// Where a provider's model is.
    pub(super) fn model_url(&self, provider: &str) -> String {
        format!("http://{}/model/{provider}", self.address)
    }

    /// Where a tool is.
    pub(super) fn tool_url(&self, tool: &str) -> String {
        format!("http://{}/tool/{tool}", self.address)
    }

    /// The stage, to look at.
    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Stage {
    /// A stage with nothing seen yet.
    pub(super) fn of(case: &Case) -> Self {
        let mut models: HashMap<String, Vec<Reply>> =
            case.fallbacks.iter().map(|(name, replies)| (name.clone(), replies.clone())).collect();
        if let Model::Replies(replies) = &case.model {
            for reply in replies {
                let provider = reply.provider.as_deref().unwrap_or(case.provider());
                models.entry(provider.to_owned()).or_default().push(reply.clone());
            }
        }
        let seen = Seen { answers: Answers::of(case), ..Seen::default() };
        Self { models, seen: Mutex::new(seen), changes: watch::Sender::new(0) }
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of each change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Seen {
    /// Requests to all models.
    pub(super) fn model_requests(&self) -> u64 {
        self.asked.values().sum::<usize>().try_into().unwrap_or(u64::MAX)
    }
}
