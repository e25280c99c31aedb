//! What a child may spend: never more than its parent has left.

use serde::{Deserialize, Serialize};

use crate::Millis;
use crate::budget::{BudgetPatch, Budgets};
use crate::run::call::Stage;
use crate::run::state::RunState;

/// What a child may spend at most, and its parent may not while it lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Tokens.
    pub tokens: u64,
    /// In micro-USD; `None`: neither has a limit.
    pub cost_microusd: Option<u64>,
    /// Time that counts, in milliseconds.
    pub time_ms: u64,
}

impl RunState {
    /// What this run has left that no child of its was given which lives or may live. `at`: now.
    pub(super) fn left(&self, at: Millis) -> Given {
        let given = self.calls.iter().filter_map(|call| match call.stage {
            Stage::Child { given, .. } => Some(given),
            _ => None,
        });
        let mut left = Given {
            tokens: self.budgets.max_tokens.saturating_sub(self.used.tokens()),
            cost_microusd: self
                .budgets
                .max_cost_microusd
                .map(|max| max.saturating_sub(self.used.cost_microusd)),
            time_ms: self.budgets.timeout_ms.saturating_sub(self.clock.elapsed_ms(at)),
        };
        for given in given.chain([self.abandoned]) {
            left.tokens = left.tokens.saturating_sub(given.tokens);
            left.time_ms = left.time_ms.saturating_sub(given.time_ms);
            left.cost_microusd =
                left.cost_microusd.map(|cost| cost.saturating_sub(given.cost_microusd.unwrap_or(0)));
        }
        left
    }
}

impl Given {
    /// Both together.
    pub(super) fn and(self, more: Self) -> Self {
        let cost = |given: Self| given.cost_microusd.unwrap_or(0);
        let is_limited = self.cost_microusd.or(more.cost_microusd).is_some();
        Self {
            tokens: self.tokens.saturating_add(more.tokens),
            cost_microusd: is_limited.then(|| cost(self).saturating_add(cost(more))),
            time_ms: self.time_ms.saturating_add(more.time_ms),
        }
    }

    /// One of `shares` equal parts.
    pub(super) fn part(self, shares: u64) -> Self {
        let part = |whole: u64| whole / shares.max(1);
        Self {
            tokens: part(self.tokens),
            cost_microusd: self.cost_microusd.map(part),
            time_ms: part(self.time_ms),
        }
    }

    /// No run can begin with this.
    pub(super) fn is_nothing(self) -> bool {
        self.tokens == 0 || self.time_ms == 0 || self.cost_microusd == Some(0)
    }
}

/// The limits of a child: its agent's own, lowered by what the tool says and by what there is for it.
pub(super) fn limits(agent: &Budgets, tool: &BudgetPatch, share: Given) -> Budgets {
    let tool_cost = tool.max_cost_microusd.flatten();
    Budgets {
        max_steps: agent.max_steps.min(tool.max_steps.unwrap_or(u32::MAX)),
        max_tokens: agent.max_tokens.min(tool.max_tokens.unwrap_or(u64::MAX)).min(share.tokens),
        max_tool_calls: agent.max_tool_calls.min(tool.max_tool_calls.unwrap_or(u32::MAX)),
        timeout_ms: agent.timeout_ms.min(tool.timeout_ms.unwrap_or(u64::MAX)).min(share.time_ms),
        max_cost_microusd: [agent.max_cost_microusd, tool_cost, share.cost_microusd]
            .into_iter()
            .flatten()
            .min(),
        on_exhausted: tool.on_exhausted.unwrap_or(agent.on_exhausted),
    }
}
