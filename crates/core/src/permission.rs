//! PermissionGate: may this call run: allow, deny, ask? (contract, "Policy")

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Risk;
use crate::id::GrantId;
use crate::schema::Schema;
use crate::{FieldError, Millis};

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
    fn of(&self, risk: Risk) -> Option<Effect> {
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

    fn judge(&self, call: &CallFacts<'_>) -> Option<Judgement> {
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

fn past(effect: Effect) -> &'static str {
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

    fn plain(effect: Effect) -> Self {
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
    fn of_rules(effect: Effect, applying: &[(usize, &Rule)], owner: Owner) -> Self {
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

/// Whether `name` matches `glob` (`*` any text, `?` any one character).
pub fn glob_matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut g, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                g += 1;
                n += 1;
            }
            _ => match star {
                // The last star takes one character more.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (g, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compiled(policy: Value, owner: Owner) -> CompiledPolicy {
        let policy: Policy = serde_json::from_value(policy).expect("policy");
        CompiledPolicy::compile(&policy, owner).expect("compiles")
    }

    fn verdict(
        agent: Value,
        tenant: Option<Value>,
        grants: &[Grant],
        risk: Risk,
        input: &Value,
    ) -> Judgement {
        let (agent, tenant) = (compiled(agent, Owner::Agent), tenant.map(|t| compiled(t, Owner::Tenant)));
        let context = json!({"group": "trial"});
        let call = CallFacts { tool_name: "pay", risk, input, input_hash: "h", context: &context };
        judge(&agent, tenant.as_ref(), grants, &call, 100)
    }

    #[test]
    fn the_strictest_of_all_that_apply_wins() {
        let deny = json!({"tool": "p?y", "effect": "deny", "reason": "over the limit",
            "input": {"properties": {"amount": {"exclusiveMinimum": 10}}}, "context": {"required": ["group"]}});
        let agent = json!({"rules": [{"tool": "p*", "effect": "allow"}, deny]});
        let high = verdict(agent.clone(), None, &[], Risk::High, &json!({"amount": 11}));
        assert_eq!((high.effect, high.rule, high.reason.as_str()), (Effect::Deny, Some(1), "over the limit"));
        let low = verdict(agent.clone(), None, &[], Risk::High, &json!({"amount": 10}));
        assert_eq!((low.effect, low.rule), (Effect::Allow, Some(0)));
        let tenant = json!({"default": {"high": "ask"}});
        assert_eq!(verdict(agent, Some(tenant), &[], Risk::High, &json!({"amount": 1})).effect, Effect::Ask);
    }

    #[test]
    fn defaults_by_risk() {
        for (risk, wanted) in [
            (Risk::Low, Effect::Allow),
            (Risk::Medium, Effect::Allow),
            (Risk::High, Effect::Ask),
            (Risk::Critical, Effect::Deny),
        ] {
            assert_eq!(verdict(json!({}), Some(json!({})), &[], risk, &json!({})).effect, wanted);
        }
        assert_eq!(
            verdict(json!({"default": {"high": "deny"}}), None, &[], Risk::High, &json!({})).effect,
            Effect::Deny
        );
    }

    #[test]
    fn a_grant_opens_what_is_asked_for_and_nothing_else() {
        let grant = |hash: Option<&str>, until| Grant {
            id: GrantId(uuid::Uuid::nil()),
            tool_name: "pay".into(),
            input_hash: hash.map(Into::into),
            expires_at: until,
        };
        let ask = json!({"default": {"critical": "ask"}});
        for (grants, risk, wanted) in [
            (vec![grant(None, None)], Risk::High, Effect::Allow),
            (vec![grant(Some("h"), Some(101))], Risk::High, Effect::Allow),
            (vec![grant(Some("other"), None)], Risk::High, Effect::Ask),
            (vec![grant(None, Some(100))], Risk::High, Effect::Ask),
            (vec![grant(None, None)], Risk::Critical, Effect::Ask),
        ] {
            assert_eq!(verdict(ask.clone(), None, &grants, risk, &json!({})).effect, wanted, "{grants:?}");
        }
        let deny = json!({"rules": [{"effect": "deny"}]});
        assert_eq!(verdict(deny, None, &[grant(None, None)], Risk::High, &json!({})).effect, Effect::Deny);
    }

    #[test]
    fn an_allow_rule_names_what_it_requires() {
        let open =
            json!({"rules": [{"effect": "allow", "input": {"properties": {"amount": {"maximum": 5}}}}]});
        let policy: Policy = serde_json::from_value(open).expect("policy");
        let errors =
            CompiledPolicy::compile(&policy, Owner::Agent).expect_err("an absent amount would be allowed");
        assert_eq!(errors[0].pointer, "/rules/0/input/properties/amount");
        let limit = json!({"amount": {"maximum": 5}});
        for (input, sound) in [
            (json!({"required": ["amount"], "properties": limit}), true),
            (json!({"required": ["amount"], "allOf": [{"properties": limit}]}), true),
            (json!({"allOf": [{"properties": limit}]}), false),
            (json!({"anyOf": [{"properties": limit, "required": ["amount"]}, {"properties": limit}]}), false),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": limit}}}), false),
            (json!({"not": {"properties": {"amount": {"minimum": 5}}}}), true),
        ] {
            let policy = Policy { rules: vec![rule(&input)], ..Policy::default() };
            assert_eq!(CompiledPolicy::compile(&policy, Owner::Agent).is_ok(), sound, "{input}");
        }
    }

    fn rule(input: &Value) -> Rule {
        serde_json::from_value(json!({"effect": "allow", "input": input})).expect("rule")
    }

    #[test]
    fn globs() {
        for (glob, name, wanted) in [
            ("*", "", true),
            ("create_*", "create_order", true),
            ("create_*", "recreate_order", false),
            ("*_order", "create_order_order", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("?", "é", true),
            ("", "a", false),
        ] {
            assert_eq!(glob_matches(glob, name), wanted, "{glob} {name}");
        }
    }
}
