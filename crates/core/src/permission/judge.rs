//! The verdict on one call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compiled::{CompiledPolicy, Owner, past};
use super::policy::{DEFAULT_EXPIRES_MS, Effect, OnExpiry, Rule};
use crate::Millis;
use crate::agent::Risk;
use crate::id::GrantId;

/// What a call is judged by.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// Tool.
    pub tool_name: &'a str,
    /// The tool's risk.
    pub risk: Risk,
    /// The validated input.
    pub input: &'a Value,
    /// Its hash.
    pub input_hash: &'a str,
    /// The run's context.
    pub context: &'a Value,
}

/// A remembered approval that covers a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// Tool.
    pub tool_name: String,
    /// The one input that it covers; `None`: any.
    pub input_hash: Option<String>,
    /// It holds until then.
    pub expires_at: Option<Millis>,
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Allow, ask or deny.
    pub effect: Effect,
    /// Index of the rule that decided, in its owner's policy.
    pub rule: Option<usize>,
    /// Whose policy decided.
    #[serde(default = "Judgement::agent")]
    pub owner: Owner,
    /// `policy` or `grant:…`.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Different deciders that must agree.
    pub approvals: u32,
    /// Time that people have, in milliseconds.
    pub expires_ms: u64,
    /// What an undecided approval comes to.
    pub on_expiry: OnExpiry,
}

impl Judgement {
    fn agent() -> Owner {
        Owner::Agent
    }

    /// A denial by nobody's rule: the gate can't judge, so the call doesn't run.
    pub fn denied(reason: &str) -> Self {
        Self { reason: reason.into(), ..Self::plain(Effect::Deny) }
    }

    pub(super) fn plain(effect: Effect) -> Self {
        Self {
            effect,
            rule: None,
            owner: Owner::Agent,
            by: "policy".into(),
            reason: String::new(),
            approvals: 1,
            expires_ms: DEFAULT_EXPIRES_MS,
            on_expiry: OnExpiry::Deny,
        }
    }

    /// Of several rules with the winning effect the first gives the reason; the hardest demands of all hold.
    pub(super) fn of_rules(effect: Effect, applying: &[(usize, &Rule)], owner: Owner) -> Self {
        let winning: Vec<_> = applying.iter().filter(|(_, rule)| rule.effect == effect).collect();
        let first = winning.first();
        let reason = first.and_then(|(_, rule)| rule.reason.clone());
        Self {
            rule: first.map(|(i, _)| *i),
            owner,
            reason: reason.unwrap_or_else(|| format!("{} by a rule of the policy", past(effect))),
            approvals: winning.iter().map(|(_, rule)| rule.approvals).max().unwrap_or(1),
            expires_ms: winning.iter().map(|(_, rule)| rule.expires_ms).min().unwrap_or(DEFAULT_EXPIRES_MS),
            on_expiry: if winning.iter().any(|(_, rule)| rule.on_expiry == OnExpiry::Stop) {
                OnExpiry::Stop
            } else {
                OnExpiry::Deny
            },
            ..Self::plain(effect)
        }
    }
}

/// Judges a call by the agent's and the tenant's policy; the stricter wins. A grant turns `ask` into `allow`, never for
/// critical risk and never a `deny`.
pub fn judge(
    agent: &CompiledPolicy,
    tenant: Option<&CompiledPolicy>,
    grants: &[Grant],
    call: &CallFacts<'_>,
    now: Millis,
) -> Judgement {
    let by_agent = agent.judge(call).unwrap_or_else(|| Judgement::plain(Effect::Deny));
    let verdict = match tenant.and_then(|tenant| tenant.judge(call)) {
        Some(by_tenant) if by_tenant.effect > by_agent.effect => by_tenant,
        Some(by_tenant) if by_tenant.effect == Effect::Ask && by_agent.effect == Effect::Ask => Judgement {
            approvals: by_agent.approvals.max(by_tenant.approvals),
            expires_ms: by_agent.expires_ms.min(by_tenant.expires_ms),
            on_expiry: if by_tenant.on_expiry == OnExpiry::Stop {
                OnExpiry::Stop
            } else {
                by_agent.on_expiry
            },
            ..by_agent
        },
        _ => by_agent,
    };
    if verdict.effect != Effect::Ask || call.risk == Risk::Critical {
        return verdict;
    }
    match grants.iter().find(|grant| grant.covers(call, now)) {
        Some(grant) => Judgement {
            effect: Effect::Allow,
            by: format!("grant:{}", grant.id),
            reason: "a remembered approval covers it".into(),
            ..verdict
        },
        None => verdict,
    }
}

impl Grant {
    fn covers(&self, call: &CallFacts<'_>, now: Millis) -> bool {
        self.tool_name == call.tool_name
            && self.input_hash.as_deref().is_none_or(|hash| hash == call.input_hash)
            && self.expires_at.is_none_or(|at| at > now)
    }
}
