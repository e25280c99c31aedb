//! A policy ready to judge: its schemas compiled, its faults found.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::glob::glob_matches;
use super::judge::{CallFacts, Judgement};
use super::policy::{Defaults, Effect, MAX_EXPIRES_MS, Policy, Rule};
use crate::FieldError;
use crate::agent::Risk;
use crate::schema::Schema;

/// Whose policy it is: an agent's fills gaps with the contract's defaults, a tenant's adds only what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The agent's own.
    Agent,
    /// The tenant's, judged beside it.
    Tenant,
}

/// A policy ready to judge.
#[derive(Debug)]
pub struct CompiledPolicy {
    owner: Owner,
    rules: Vec<CompiledRule>,
    defaults: Defaults,
}

#[derive(Debug)]
struct CompiledRule {
    rule: Rule,
    input: Option<Schema>,
    context: Option<Schema>,
}

impl CompiledPolicy {
    /// Compiles a policy.
    ///
    /// # Errors
    /// Every fault, with pointers into the policy.
    pub fn compile(policy: &Policy, owner: Owner) -> Result<Self, Vec<FieldError>> {
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
            Ok(Self { owner, rules, defaults: policy.default.clone().unwrap_or_default() })
        } else {
            Err(errors)
        }
    }

    pub(super) fn judge(&self, call: &CallFacts<'_>) -> Option<Judgement> {
        let applying = self.rules.iter().enumerate().filter(|(_, rule)| rule.applies(call));
        let applying: Vec<(usize, &Rule)> = applying.map(|(i, compiled)| (i, &compiled.rule)).collect();
        if let Some(effect) = applying.iter().map(|(_, rule)| rule.effect).max() {
            return Some(Judgement::of_rules(effect, &applying, self.owner));
        }
        let of_contract = match call.risk {
            Risk::Low | Risk::Medium => Effect::Allow,
            Risk::High => Effect::Ask,
            Risk::Critical => Effect::Deny,
        };
        let effect = match (self.defaults.of(call.risk), self.owner) {
            (Some(effect), _) => effect,
            (None, Owner::Agent) => of_contract,
            (None, Owner::Tenant) => return None,
        };
        let reason = format!("no rule applies; {} risk is {} by default", call.risk.as_str(), past(effect));
        Some(Judgement { effect, rule: None, owner: self.owner, reason, ..Judgement::plain(effect) })
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
    fn applies(&self, call: &CallFacts<'_>) -> bool {
        let rule = &self.rule;
        rule.tool.as_deref().is_none_or(|glob| glob_matches(glob, call.tool_name))
            && rule.risk.as_ref().is_none_or(|risks| risks.contains(&call.risk))
            && self.input.as_ref().is_none_or(|schema| schema.fits(call.input))
            && self.context.as_ref().is_none_or(|schema| schema.fits(call.context))
    }
}

fn check_rule(rule: &Rule, at: &str, errors: &mut Vec<FieldError>) {
    if rule.approvals == 0 || rule.approvals > 20 {
        errors.push(FieldError::new(format!("{at}/approvals"), "must be 1 to 20"));
    }
    if rule.expires_ms == 0 || rule.expires_ms > MAX_EXPIRES_MS {
        errors.push(FieldError::new(format!("{at}/expires_ms"), format!("must be 1 to {MAX_EXPIRES_MS}")));
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
