//! Who let a call happen, or not: as it is stored with the call.

use serde::{Deserialize, Serialize};

use crate::Millis;
use crate::permission::{Effect, Judgement, Owner, PolicyVersion};

/// Who let a call happen, or not (contract, "ToolCall").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// `allow`, `deny` or `ask`.
    pub effect: Effect,
    /// The rule that decided, in the policy of `policy`.
    pub rule: Option<usize>,
    /// Whose policy decided; `None`: a person did, or time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Owner>,
    /// That policy's version: a tenant's number, or the hash of what an agent's or a run's says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<String>,
    /// All policies that it was judged by, also where a person decided then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judged_by: Vec<PolicyVersion>,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub decided_at: Millis,
}

impl Decision {
    /// The gate's verdict as a decision.
    pub fn of(judgement: &Judgement, at: Millis) -> Self {
        Self {
            effect: judgement.effect,
            rule: judgement.rule,
            policy: judgement.version.is_some().then_some(judgement.owner),
            policy_version: judgement.version.clone(),
            judged_by: judgement.judged_by.clone(),
            by: judgement.by.clone(),
            reason: judgement.reason.clone(),
            decided_at: at,
        }
    }

    /// What a person decided, or time.
    pub fn by_person(effect: Effect, by: String, reason: String, at: Millis) -> Self {
        Self {
            effect,
            rule: None,
            policy: None,
            policy_version: None,
            judged_by: Vec::new(),
            by,
            reason,
            decided_at: at,
        }
    }
}
