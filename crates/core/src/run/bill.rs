//! What a run's tenant pays for: what each attempt on a model took, whose model that was, and that the day has no more.

use serde::{Deserialize, Serialize};

use super::state::is_default;
use super::step::{Legal, Machine};
use crate::budget::DayLimit;
use crate::model::Usage;

/// The model that is asked, or was last, as a bill names it. The database reads it with each commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OnBill {
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// Which of the agent's targets the run has asked so far, a bit each: a run counts once for each of its models.
    #[serde(skip_serializing_if = "is_default")]
    pub targets: u64,
}

impl Machine<'_> {
    /// A model is asked from here on, the first time or again.
    pub(super) fn note_model_asked(&mut self) {
        let (provider, model) = self.target();
        let bit = 1_u64 << self.state.model.target.min(62);
        let bill = self.state.bill.get_or_insert_default();
        bill.model = format!("{provider}/{model}");
        bill.targets |= bit;
    }

    /// An attempt on a model took this.
    pub(super) fn spend(&mut self, usage: &Usage, cost_microusd: u64) {
        self.state.used.add(usage, cost_microusd);
        self.state.used.model_calls = self.state.used.model_calls.saturating_add(1);
    }

    /// The tenant has used up its day: the run ends. Nothing was asked, so nothing is spent and no attempt counts.
    pub(super) fn quota_used_up(&mut self, limit: DayLimit) -> Legal {
        self.model_was_asked("QuotaUsedUp")?;
        self.end_with_code(limit.limit().into(), "quota_exceeded", limit.detail(), None);
        Ok(())
    }
}
