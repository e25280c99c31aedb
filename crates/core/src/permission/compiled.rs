//! A policy ready to judge: its schemas compiled, its faults found.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::glob::glob_matches;
use super::judge::{CallFacts, Judgement, PolicyVersion};
use super::policy::{
    Defaults, Denials, Effect, MAX_EXPIRES_MS, MAX_RULES, MIN_REMIND_EVERY_MS, Policy, Rule,
};
use crate::FieldError;
use crate::agent::Risk;
use crate::schema::Schema;

/// Stands behind the reason of a rule that applies because nobody could tell in time whether it does.
const UNTOLD: &str = " (its schema could not be judged in time)";

/// Whose policy it is: an agent's fills gaps with the contract's defaults, a tenant's and a run's add only what they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The agent's own.
    Agent,
    /// The tenant's, judged beside it.
    Tenant,
    /// The run's own, judged beside both: it can only tighten.
    Run,
}

/// A policy ready to judge.
#[derive(Debug)]
pub struct CompiledPolicy {
    pub(super) owner: Owner,
    /// Its number, or the hash of what it says.
    pub(super) version: String,
    pub(super) rules: Vec<CompiledRule>,
    pub(super) defaults: Defaults,
    /// What a denial leads to by it.
    pub(super) denials: Option<Denials>,
}

#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) rule: Rule,
    pub(super) input: Option<Schema>,
    pub(super) context: Option<Schema>,
}

impl CompiledPolicy {
    /// Compiles a policy.
    ///
    /// # Errors
    /// Every fault, with pointers into the policy.
    pub fn compile(policy: &Policy, owner: Owner) -> Result<Self, Vec<FieldError>> {
        if policy.rules.len() > MAX_RULES {
            return Err(vec![FieldError::new("/rules", format!("has at most {MAX_RULES} rules"))]);
        }
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for (i, rule) in policy.rules.iter().enumerate() {
            let at = format!("/rules/{i}");
            check_rule(rule, &at, &mut errors);
            let mut schema = |part: &Option<Value>, name: &str| {
                let compiled = part.as_ref().map(Schema::compile).transpose();
                compiled.unwrap_or_else(|error| {
                    errors.push(error.under(&format!("{at}/{name}")));
                    None
                })
            };
            let (input, context) = (schema(&rule.input, "input"), schema(&rule.context, "context"));
            rules.push(CompiledRule { rule: rule.clone(), input, context });
        }
        if errors.is_empty() {
            let (version, denials) = (policy.hash(), policy.denials(owner));
            Ok(Self { owner, version, rules, defaults: policy.default.clone().unwrap_or_default(), denials })
        } else {
            Err(errors)
        }
    }

    /// The same under its number.
    #[must_use]
    pub fn numbered(self, version: i32) -> Self {
        Self { version: version.to_string(), ..self }
    }

    /// It and its version, as decisions name them.
    pub(super) fn named(&self) -> PolicyVersion {
        PolicyVersion { owner: self.owner, version: self.version.clone() }
    }

    pub(super) fn judge(&self, call: &CallFacts<'_>) -> Option<Judgement> {
        let (mut applying, mut untold) = (Vec::new(), BTreeSet::new());
        for (i, compiled) in self.rules.iter().enumerate() {
            let Some(is_known) = compiled.applies(call) else { continue };
            applying.push((i, &compiled.rule));
            if !is_known {
                untold.insert(i);
            }
        }
        if let Some(effect) = applying.iter().map(|(_, rule)| rule.effect).max() {
            let version = Some(self.version.clone());
            let mut judgement = Judgement { version, ..Judgement::of_rules(effect, &applying, self.owner) };
            if judgement.rule.is_some_and(|rule| untold.contains(&rule)) {
                judgement.reason.push_str(UNTOLD);
            }
            return Some(judgement);
        }
        let effect = self.by_default(call.risk)?;
        let reason = format!("no rule applies; {} risk is {} by default", call.risk.as_str(), past(effect));
        let (owner, version) = (self.owner, Some(self.version.clone()));
        Some(Judgement { owner, version, reason, ..Judgement::plain(effect) })
    }

    /// What it says where no rule applies; `None`: nothing, and the other policies decide.
    pub(super) fn by_default(&self, risk: Risk) -> Option<Effect> {
        let of_contract = match risk {
            Risk::Low | Risk::Medium => Effect::Allow,
            Risk::High => Effect::Ask,
            Risk::Critical => Effect::Deny,
        };
        self.defaults.of(risk).or_else(|| (self.owner == Owner::Agent).then_some(of_contract))
    }
}

pub(super) fn past(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allowed",
        Effect::Ask => "asked for",
        Effect::Deny => "denied",
    }
}

impl CompiledRule {
    /// `None`: it doesn't apply. Else whether that is known: where it would take too long to tell, a rule may apply all the same.
    fn applies(&self, call: &CallFacts<'_>) -> Option<bool> {
        if !self.names_tool(call) || !self.names_risk(call) {
            return None;
        }
        let parts = [(&self.input, call.input), (&self.context, call.context)];
        let mut is_known = true;
        for (schema, instance) in parts {
            let Some(schema) = schema else { continue };
            let fits = schema.judge(instance, call.effort);
            is_known &= fits.is_some();
            if !self.counts(fits) {
                return None;
            }
        }
        Some(is_known)
    }

    /// Whether a part matches that fits or doesn't. Where that would take too long to tell, a rule opens nothing, and forbids or
    /// asks all the same.
    pub(super) fn counts(&self, fits: Option<bool>) -> bool {
        fits.unwrap_or(self.rule.effect != Effect::Allow)
    }

    pub(super) fn names_tool(&self, call: &CallFacts<'_>) -> bool {
        self.rule.tool.as_deref().is_none_or(|glob| glob_matches(glob, call.tool_name))
    }

    pub(super) fn names_risk(&self, call: &CallFacts<'_>) -> bool {
        self.rule.risk.as_ref().is_none_or(|risks| risks.contains(&call.risk))
    }
}

fn check_rule(rule: &Rule, at: &str, errors: &mut Vec<FieldError>) {
    if rule.approvals == 0 || rule.approvals > 20 {
        errors.push(FieldError::new(format!("{at}/approvals"), "must be 1 to 20"));
    }
    if rule.expires_ms == 0 || rule.expires_ms > MAX_EXPIRES_MS {
        errors.push(FieldError::new(format!("{at}/expires_ms"), format!("must be 1 to {MAX_EXPIRES_MS}")));
    }
    if rule.remind_every_ms.is_some_and(|every| !(MIN_REMIND_EVERY_MS..=MAX_EXPIRES_MS).contains(&every)) {
        let message = format!("must be {MIN_REMIND_EVERY_MS} to {MAX_EXPIRES_MS}");
        errors.push(FieldError::new(format!("{at}/remind_every_ms"), message));
    }
    if rule.effect == Effect::Allow {
        for (part, schema) in [("input", &rule.input), ("context", &rule.context)] {
            if let Some(schema) = schema {
                check_required(schema, &[], &format!("{at}/{part}"), errors);
            }
        }
    }
}

/// In an `allow` rule an absent field must not open a gate (contract, "Policy"). `required`: what the schemas around this
/// one, which judge the same object, ask for already.
fn check_required(schema: &Value, required: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    let own =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let required: Vec<&str> = required.iter().copied().chain(own).collect();
    for (name, inner) in members(schema, "properties") {
        let here = format!("{at}/properties/{}", crate::field_error::pointer_token(name));
        if !required.contains(&name.as_str()) {
            errors.push(FieldError::new(&here, "an allow rule must also list this property in required"));
        }
        check_required(inner, &[], &here, errors);
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for (i, inner) in schema.get(word).and_then(Value::as_array).into_iter().flatten().enumerate() {
            check_required(inner, &required, &format!("{at}/{word}/{i}"), errors);
        }
    }
    for word in ["then", "else"] {
        if let Some(inner) = schema.get(word) {
            check_required(inner, &required, &format!("{at}/{word}"), errors);
        }
    }
    for word in ["dependentSchemas", "$defs", "definitions"] {
        for (name, inner) in members(schema, word) {
            let here = format!("{at}/{word}/{}", crate::field_error::pointer_token(name));
            check_required(inner, if word == "dependentSchemas" { &required } else { &[] }, &here, errors);
        }
    }
}

fn members<'a>(schema: &'a Value, word: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(word).and_then(Value::as_object).into_iter().flatten()
}
