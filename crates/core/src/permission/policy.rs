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

/// What a denial leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denials {
    /// Whether one ends the run.
    pub on_deny: OnDeny,
    /// The run ends at this many.
    pub max_denials: u32,
}

impl Denials {
    /// The stricter of two, part by part.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let stops = self.on_deny == OnDeny::Stop || other.on_deny == OnDeny::Stop;
        Self {
            on_deny: if stops { OnDeny::Stop } else { OnDeny::Observe },
            max_denials: self.max_denials.min(other.max_denials),
        }
    }
}

impl Policy {
    /// Its version, where it has no number: the hash of what it says.
    pub fn hash(&self) -> String {
        let said = serde_json::to_value(self).unwrap_or_default();
        crate::json::sha256_hex(crate::json::canonical(&said).as_bytes())
    }

    /// What a denial leads to. A tenant's or a run's policy says only what stands in it (`None`: nothing).
    pub(super) fn denials(&self, owner: super::Owner) -> Option<Denials> {
        let is_own = owner == super::Owner::Agent || self.on_deny.is_some() || self.max_denials.is_some();
        let max_denials = if self.max_denials.is_some() || owner == super::Owner::Agent {
            self.max_denials()
        } else {
            u32::MAX
        };
        is_own.then(|| Denials { on_deny: self.on_deny(), max_denials })
    }

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
    /// Whoever started the run may approve, too.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub self_approval: bool,
    /// People are reminded this often while they have not decided, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_every_ms: Option<u64>,
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
/// Most rules of a policy.
pub const MAX_RULES: usize = 256;

/// Version of the state of a run with a policy of its own ([`crate::run::STATE_VERSION`]): servers that would not judge by it
/// leave the run alone.
pub const VERSION_OF_RUN_POLICIES: u16 = 5;

/// Shortest time between two reminders: a minute.
pub const MIN_REMIND_EVERY_MS: u64 = 60_000;

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_yes(value: &bool) -> bool {
    *value
}

fn one() -> u32 {
    1
}

fn a_day() -> u64 {
    DEFAULT_EXPIRES_MS
}
