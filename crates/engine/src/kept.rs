//! How much of a run's outputs is kept apart: up to a bound, so that a loop that fetches a large page again and again fills
//! nobody's disk. The call goes on all the same, with the head that the model is shown.

use answerable_ports::StoreError;

use crate::session::{Session, patiently};

impl Session {
    /// Artifacts of what happened for which there is no room any more are left out, and their outputs say so.
    pub(crate) async fn keep_within_bounds(&mut self) -> Result<(), StoreError> {
        if self.causes.iter().all(|cause| cause.artifacts.is_empty()) {
            return Ok(());
        }
        let mut kept = match self.kept {
            Some(kept) => kept,
            None => patiently(|| self.env.store.artifacts_kept(self.lease())).await?,
        };
        self.kept = Some(kept);
        for cause in &mut self.causes {
            let mut gone = Vec::new();
            cause.artifacts.retain(|artifact| {
                let fits = kept.take(artifact.content.len() as u64);
                if !fits {
                    gone.push(artifact.id);
                }
                fits
            });
            if !gone.is_empty() {
                tracing::warn!(run_id = %self.facts.lease.run_id, "a run's artifacts take all their room");
                cause.event.without_artifacts(&gone);
            }
        }
        Ok(())
    }
}
