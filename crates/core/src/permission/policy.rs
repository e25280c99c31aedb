//! A policy as a tenant writes it (contract, "Policy").

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Risk;

/// A policy as a tenant writes it, for an agent or for all of the tenant's runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Every rule whose parts all match applies; the strictest wins.
    pub rules: Vec<Rule>,
    /// What holds where no rule applies, by risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Defaults>,
    /// Whether a denial ends the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_deny: Option<OnDeny>,
    /// The run ends at this many denials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_denials: Option<u32>,
}

impl Policy {
    /// What an agent that says nothing has.
    pub fn for_agent() -> Self {
        Self::default()
    }

    /// Whether a denial ends the run.
    pub fn on_deny(&self) -> OnDeny {
        self.on_deny.unwrap_or(OnDeny::Observe)
    }

    /// The run ends at this many denials.
    pub fn max_denials(&self) -> u32 {
        self.max_denials.unwrap_or(3).max(1)
    }
}

/// One rule. An absent part matches anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Glob over tool names: `*` is any text, `?` any character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Risks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Vec<Risk>>,
    /// JSON Schema that the input must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// JSON Schema that the run's context must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// What it says.
    pub effect: Effect,
    /// Why, for the model and for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Different deciders that must agree.
    #[serde(default = "one")]
    pub approvals: u32,
    /// Time that people have.
    #[serde(default = "a_day")]
    pub expires_ms: u64,
    /// What an approval that nobody decided comes to.
    #[serde(default = "OnExpiry::deny")]
    pub on_expiry: OnExpiry,
}

/// What a rule says, from the mildest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Effect {
    Allow,
    Ask,
    Deny,
}

impl Effect {
    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// What an approval that nobody decided comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// The call is denied.
    Deny,
    /// The run ends, `approval_expired`.
    Stop,
}

impl OnExpiry {
    fn deny() -> Self {
        Self::Deny
    }
}

/// Whether a denial ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeny {
    /// The model is told.
    Observe,
    /// It ends, `permission_denied`.
    Stop,
}

/// What holds where no rule applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// For low risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<Effect>,
    /// For medium risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<Effect>,
    /// For high risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<Effect>,
    /// For critical risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical: Option<Effect>,
}

impl Defaults {
    pub(super) fn of(&self, risk: Risk) -> Option<Effect> {
        match risk {
            Risk::Low => self.low,
            Risk::Medium => self.medium,
            Risk::High => self.high,
            Risk::Critical => self.critical,
        }
    }
}

/// A day: the time that people have unless a rule says otherwise.
pub const DEFAULT_EXPIRES_MS: u64 = 86_400_000;
/// Longest time that people may have: thirty days.
pub const MAX_EXPIRES_MS: u64 = 30 * 86_400_000;

fn one() -> u32 {
    1
}

fn a_day() -> u64 {
    DEFAULT_EXPIRES_MS
}
