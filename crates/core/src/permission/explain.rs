//! Why the gate says what it says of a call: every rule of every policy, whether it matches and why, and the remembered
//! approvals that could answer for it. Nothing is decided by this.

use serde::Serialize;

use super::compiled::{CompiledPolicy, CompiledRule, Owner, past};
use super::grant::{Gap, Grant};
use super::judge::{CallFacts, Judgement, Policies, by_policies, judge};
use super::policy::Effect;
use crate::id::GrantId;
use crate::schema::{Effort, Schema};
use crate::{FieldError, Millis};

/// Most findings that are told of one policy's rules; what doesn't fit the others is not looked for.
const MOST_FINDINGS: usize = 100;

/// A verdict, and all that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// What [`judge`] says.
    pub judgement: Judgement,
    /// The policies, the agent's first.
    pub policies: Vec<ExplainedPolicy>,
    /// Remembered approvals of the tool.
    pub grants: Vec<ExplainedGrant>,
}

/// What one policy says of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedPolicy {
    /// Whose.
    pub owner: Owner,
    /// Its number, or the hash of what it says.
    pub version: String,
    /// Its rules, in order.
    pub rules: Vec<ExplainedRule>,
    /// What holds where no rule matches.
    pub default: ExplainedDefault,
    /// What it says alone; `None`: nothing.
    pub verdict: Option<Effect>,
    /// Why it can't be judged, if it can't: then every call is denied.
    pub fault: Option<String>,
}

/// One rule and a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedRule {
    /// Its place in the policy.
    pub index: usize,
    /// What it says.
    pub effect: Effect,
    /// Its own words.
    pub reason: Option<String>,
    /// All its parts match.
    pub matched: bool,
    /// It matches, and no rule of this policy that matches is stricter: the verdict has its demands.
    pub decides: bool,
    /// Its parts.
    pub parts: ExplainedParts,
}

/// The parts of a rule; `None`: the rule hasn't that part, and anything matches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedParts {
    /// The glob over tool names.
    pub tool: Option<ExplainedPart>,
    /// The risks.
    pub risk: Option<ExplainedPart>,
    /// The schema of the input.
    pub input: Option<ExplainedPart>,
    /// The schema of the run's context.
    pub context: Option<ExplainedPart>,
}

/// One part of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedPart {
    /// Whether it matches.
    pub matched: bool,
    /// For people.
    pub why: String,
    /// What of the input or context doesn't fit: at most eight findings, and a hundred of a policy.
    pub errors: Vec<FieldError>,
}

/// What a policy says where no rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedDefault {
    /// No rule matches, and it says something.
    pub applies: bool,
    /// What it says of the call's risk; `None`: nothing.
    pub effect: Option<Effect>,
    /// For people.
    pub why: String,
}

/// A remembered approval and a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedGrant {
    /// Which.
    pub id: GrantId,
    /// It answers for the call. Of several the first does.
    pub covers: bool,
    /// For people.
    pub why: String,
}

/// Judges a call as [`judge`] does, and tells why.
pub fn explain(policies: Policies<'_>, grants: &[Grant], call: &CallFacts<'_>, now: Millis) -> Explanation {
    // What is told costs what it costs; what is said must not depend on that.
    let asked = by_policies(policies, &CallFacts { effort: &Effort::of_one(), ..*call });
    let of_tool = grants.iter().filter(|grant| grant.tool_name == call.tool_name);
    let explained = |grant: &Grant| {
        let gap = grant.gap(call, &asked, now);
        let why = gap.map_or("it answers where people would be asked", Gap::why);
        ExplainedGrant { id: grant.id, covers: gap.is_none(), why: why.into() }
    };
    Explanation {
        judgement: judge(policies, grants, &CallFacts { effort: &Effort::of_one(), ..*call }, now),
        policies: policies.all().map(|policy| policy.explain(call)).collect(),
        grants: of_tool.map(explained).collect(),
    }
}

impl ExplainedGrant {
    /// The same, where something stands in its way.
    #[must_use]
    pub fn unusable(self, gap: Gap) -> Self {
        Self { covers: false, why: gap.why().into(), ..self }
    }
}

impl ExplainedPolicy {
    /// A policy that can't be judged.
    pub fn broken(owner: Owner, version: impl Into<String>, fault: impl Into<String>) -> Self {
        let why = "the policy can't be judged, so every call is denied".into();
        Self {
            owner,
            version: version.into(),
            rules: Vec::new(),
            default: ExplainedDefault { applies: false, effect: None, why },
            verdict: Some(Effect::Deny),
            fault: Some(fault.into()),
        }
    }
}

impl CompiledPolicy {
    /// What it says of a call, and why.
    pub fn explain(&self, call: &CallFacts<'_>) -> ExplainedPolicy {
        let mut room = MOST_FINDINGS;
        let rules = self.rules.iter().enumerate().map(|(index, rule)| rule.explain(index, call, &mut room));
        let mut rules: Vec<ExplainedRule> = rules.collect();
        let strictest = rules.iter().filter(|rule| rule.matched).map(|rule| rule.effect).max();
        for rule in &mut rules {
            rule.decides = rule.matched && strictest == Some(rule.effect);
        }
        let effect = self.by_default(call.risk);
        let risk = call.risk.as_str();
        let why = match (strictest, effect) {
            (Some(_), _) => "a rule matches, so the default doesn't count".into(),
            (None, Some(effect)) => format!("no rule matches; {risk} risk is {} by default", past(effect)),
            (None, None) => format!("no rule matches, and no default speaks of {risk} risk"),
        };
        ExplainedPolicy {
            owner: self.owner,
            version: self.version.clone(),
            rules,
            default: ExplainedDefault { applies: strictest.is_none() && effect.is_some(), effect, why },
            verdict: strictest.or(effect),
            fault: None,
        }
    }
}

impl CompiledRule {
    /// Whether it decides is settled once all rules are known.
    fn explain(&self, index: usize, call: &CallFacts<'_>, room: &mut usize) -> ExplainedRule {
        let rule = &self.rule;
        let parts = ExplainedParts {
            tool: rule.tool.as_ref().map(|glob| self.explain_tool(glob, call)),
            risk: rule.risk.as_ref().map(|risks| self.explain_risk(risks, call)),
            input: self
                .input
                .as_ref()
                .map(|schema| self.fit(schema, (call.input, "input"), call.effort, room)),
            context: self
                .context
                .as_ref()
                .map(|schema| self.fit(schema, (call.context, "context"), call.effort, room)),
        };
        let of_all = [&parts.tool, &parts.risk, &parts.input, &parts.context];
        let matched = of_all.into_iter().flatten().all(|part| part.matched);
        let (effect, reason) = (rule.effect, rule.reason.clone());
        ExplainedRule { index, effect, reason, matched, decides: false, parts }
    }

    /// `room`: how many findings may be told of still.
    fn fit(
        &self,
        schema: &Schema,
        (instance, what): (&serde_json::Value, &str),
        effort: &Effort,
        room: &mut usize,
    ) -> ExplainedPart {
        let fits = schema.judge(instance, effort);
        let mut errors =
            if fits == Some(true) || *room == 0 { Vec::new() } else { schema.findings(instance, effort) };
        errors.truncate(*room);
        *room -= errors.len();
        let word = match fits {
            Some(true) => "fits",
            Some(false) => "doesn't fit",
            None => "can't be judged in time by",
        };
        let matched = self.counts(fits);
        ExplainedPart { matched, why: format!("the {what} {word} the schema"), errors }
    }

    fn explain_tool(&self, glob: &str, call: &CallFacts<'_>) -> ExplainedPart {
        let matched = self.names_tool(call);
        let word = if matched { "matches" } else { "doesn't match" };
        ExplainedPart { matched, why: format!("{glob:?} {word} {:?}", call.tool_name), errors: Vec::new() }
    }

    fn explain_risk(&self, risks: &[crate::agent::Risk], call: &CallFacts<'_>) -> ExplainedPart {
        let matched = self.names_risk(call);
        let listed: Vec<&str> = risks.iter().map(|risk| risk.as_str()).collect();
        let word = if matched { "is" } else { "is not" };
        let why = format!("the tool's risk, {}, {word} among: {}", call.risk.as_str(), listed.join(", "));
        ExplainedPart { matched, why, errors: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
