//! The verdict on one call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compiled::{CompiledPolicy, Owner, past};
use super::grant::{Grant, are_enough};
use super::policy::{DEFAULT_EXPIRES_MS, Denials, Effect, OnExpiry, Rule};
use crate::Millis;
use crate::agent::Risk;
use crate::schema::Effort;

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
    /// Who started the run: a key, and whoever it spoke for.
    pub creators: &'a [String],
    /// What judging by schemas may cost still, all of it together. When that is used up, rules open nothing, and forbid and
    /// ask all the same.
    pub effort: &'a Effort,
}

/// The policies that a call is judged by; the strictest wins.
#[derive(Debug, Clone, Copy)]
pub struct Policies<'a> {
    /// The agent's.
    pub agent: &'a CompiledPolicy,
    /// The tenant's, if it has one.
    pub tenant: Option<&'a CompiledPolicy>,
    /// The run's own, if it was started with one.
    pub run: Option<&'a CompiledPolicy>,
}

impl<'a> Policies<'a> {
    /// All of them, the agent's first.
    pub fn all(self) -> impl Iterator<Item = &'a CompiledPolicy> {
        [Some(self.agent), self.tenant, self.run].into_iter().flatten()
    }
}

/// A policy and its version, as a decision names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyVersion {
    /// Whose policy.
    pub owner: Owner,
    /// A tenant's number, or the hash of what an agent's or a run's says.
    pub version: String,
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
    /// Version of the policy that decided; `None`: no policy did.
    #[serde(default)]
    pub version: Option<String>,
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
    /// Whoever started the run may approve, too.
    #[serde(default = "Judgement::yes")]
    pub self_approval: bool,
    /// People are reminded this often, in milliseconds.
    #[serde(default)]
    pub remind_every_ms: Option<u64>,
    /// All policies that were judged by.
    #[serde(default)]
    pub judged_by: Vec<PolicyVersion>,
    /// What a denial leads to by all of them; `None` in older journals: what the agent's says.
    #[serde(default)]
    pub denials: Option<Denials>,
    /// Number of the tenant's rules under which it was said: as long as it stands, so does what was said.
    #[serde(default)]
    pub rules: i64,
    /// It holds until then: the remembered approval that it rests on ends.
    #[serde(default)]
    pub until: Option<Millis>,
}

impl Judgement {
    fn agent() -> Owner {
        Owner::Agent
    }

    fn yes() -> bool {
        true
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
            version: None,
            by: "policy".into(),
            reason: String::new(),
            approvals: 1,
            expires_ms: DEFAULT_EXPIRES_MS,
            on_expiry: OnExpiry::Deny,
            self_approval: true,
            remind_every_ms: None,
            judged_by: Vec::new(),
            denials: None,
            rules: 0,
            until: None,
        }
    }

    /// The same, said under the tenant's rules of this number.
    #[must_use]
    pub fn under(self, rules: i64) -> Self {
        Self { rules, ..self }
    }

    /// Of several rules with the winning effect the first gives the reason; the hardest demands of all hold.
    pub(super) fn of_rules(effect: Effect, applying: &[(usize, &Rule)], owner: Owner) -> Self {
        let winning = || applying.iter().filter(|(_, rule)| rule.effect == effect);
        let first = winning().next();
        let reason = first.and_then(|(_, rule)| rule.reason.clone());
        let verdict = Self {
            rule: first.map(|(i, _)| *i),
            owner,
            reason: reason.unwrap_or_else(|| format!("{} by a rule of the policy", past(effect))),
            expires_ms: first.map_or(DEFAULT_EXPIRES_MS, |(_, rule)| rule.expires_ms),
            ..Self::plain(effect)
        };
        winning().fold(verdict, |verdict, (_, rule)| verdict.with_demands_of(rule))
    }

    fn with_demands_of(self, rule: &Rule) -> Self {
        self.harder(rule.approvals, rule.expires_ms, rule.on_expiry, rule.self_approval, rule.remind_every_ms)
    }

    /// With another verdict beside it: the stricter effect wins, and where both ask, the hardest demands of both hold.
    fn beside(self, other: Self) -> Self {
        if other.effect > self.effect {
            return other;
        }
        if other.effect == Effect::Ask && self.effect == Effect::Ask {
            return self.harder(
                other.approvals,
                other.expires_ms,
                other.on_expiry,
                other.self_approval,
                other.remind_every_ms,
            );
        }
        self
    }

    fn harder(
        self,
        approvals: u32,
        expires_ms: u64,
        on_expiry: OnExpiry,
        self_approval: bool,
        remind_every_ms: Option<u64>,
    ) -> Self {
        Self {
            approvals: self.approvals.max(approvals),
            expires_ms: self.expires_ms.min(expires_ms),
            on_expiry: if on_expiry == OnExpiry::Stop { OnExpiry::Stop } else { self.on_expiry },
            self_approval: self.self_approval && self_approval,
            remind_every_ms: [self.remind_every_ms, remind_every_ms].into_iter().flatten().min(),
            ..self
        }
    }

    /// Whether a call that people approved may run by this: it isn't denied, and those who approved are those who must.
    pub fn is_met_by(&self, deciders: &[String], creators: &[String]) -> bool {
        match self.effect {
            Effect::Allow => true,
            Effect::Ask => are_enough(deciders, self, creators),
            Effect::Deny => false,
        }
    }
}

/// Judges a call by all policies; the strictest wins. A grant turns `ask` into `allow`, never for critical risk and never a
/// `deny`.
pub fn judge(policies: Policies<'_>, grants: &[Grant], call: &CallFacts<'_>, now: Millis) -> Judgement {
    let verdict = by_policies(policies, call);
    match grants.iter().find(|grant| grant.gap(call, &verdict, now).is_none()) {
        Some(grant) => Judgement {
            effect: Effect::Allow,
            by: format!("grant:{}", grant.id),
            reason: "a remembered approval covers it".into(),
            until: grant.expires_at,
            ..verdict
        },
        None => verdict,
    }
}

/// The verdict of the policies alone.
pub(super) fn by_policies(policies: Policies<'_>, call: &CallFacts<'_>) -> Judgement {
    let by_agent = policies.agent.judge(call).unwrap_or_else(|| Judgement::plain(Effect::Deny));
    let others = [policies.tenant, policies.run].into_iter().flatten();
    let verdict = others.filter_map(|policy| policy.judge(call)).fold(by_agent, Judgement::beside);
    Judgement {
        judged_by: policies.all().map(CompiledPolicy::named).collect(),
        denials: policies.all().filter_map(|policy| policy.denials).reduce(Denials::stricter),
        ..verdict
    }
}
