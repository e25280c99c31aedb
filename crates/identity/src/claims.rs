//! What a token says, and whom that would vouch for if it is genuine.

use answerable_core::Millis;
use answerable_core::id::TenantId;
use answerable_ports::Vouched;
use serde_json::{Map, Value};

use crate::{Fault, Token};

/// How far the issuer's clock may be from ours.
const LEEWAY_MS: Millis = 60_000;
/// Longest name, in characters.
const LONGEST_NAME: usize = 128;
/// Scopes that there are. Others in a token are for somebody else.
const SCOPES: [&str; 5] = ["runs:read", "runs:write", "approvals:decide", "agents:write", "admin"];
/// Seconds from 1970 to the end of 9999: no honest time is later.
const LATEST_S: f64 = 253_402_300_799.0;

/// What tokens must say, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Who must have issued them.
    pub issuer: String,
    /// Whom they must be meant for.
    pub audience: String,
    /// The claim that holds the tenant's id.
    pub tenant_claim: String,
    /// The claim that holds the scopes.
    pub scopes_claim: String,
    /// The claim that holds the name.
    pub user_claim: String,
}

/// What a token says.
#[derive(Debug)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// What this token says; whether it is genuine is another question.
    ///
    /// # Errors
    /// It is no JSON object.
    pub fn of(token: &Token<'_>) -> Result<Self, Fault> {
        serde_json::from_slice(&token.payload).map(Self).map_err(|_| Fault::Unreadable)
    }

    /// Whom the token vouches for at `now`.
    ///
    /// # Errors
    /// Why for nobody.
    pub fn vouch(&self, rules: &Rules, now: Millis) -> Result<Vouched, Fault> {
        if self.text("iss") != Some(&*rules.issuer) {
            return Err(Fault::Claim("iss"));
        }
        if !self.is_meant_for(&rules.audience) {
            return Err(Fault::Claim("aud"));
        }
        let until = self.time("exp")?.ok_or(Fault::Claim("exp"))? + LEEWAY_MS;
        let from = self.time("nbf")?.map_or(Millis::MIN, |at| at - LEEWAY_MS);
        if until <= now || from > now {
            return Err(Fault::Time);
        }
        let tenant = self.text(&rules.tenant_claim).and_then(|id| id.parse::<TenantId>().ok());
        let tenant = tenant.ok_or(Fault::Claim("of the tenant"))?;
        Ok(Vouched { tenant, user: self.user(rules)?, scopes: self.scopes(rules)?, until })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn is_meant_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(many)) => many.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        }
    }

    /// A time, in seconds with a fraction or without.
    fn time(&self, name: &'static str) -> Result<Option<Millis>, Fault> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let seconds = value.as_number().and_then(serde_json::Number::as_f64);
        let seconds = seconds.filter(|seconds| (0.0..=LATEST_S).contains(seconds));
        #[expect(clippy::cast_possible_truncation, reason = "it is within the range")]
        let millis = seconds.map(|seconds| (seconds * 1000.0) as Millis);
        millis.map(Some).ok_or(Fault::Claim(name))
    }

    /// A name that can be told from every other by reading it.
    fn user(&self, rules: &Rules) -> Result<String, Fault> {
        let fault = Fault::Claim("of the user");
        let name = self.text(&rules.user_claim).ok_or(fault)?;
        let is_printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let is_plain = is_printable && name.trim() == name && !name.contains("  ");
        if !is_plain || name.is_empty() || name.len() > LONGEST_NAME {
            return Err(fault);
        }
        // Whoever may enter any address as their own would be anybody.
        let is_unverified = self
            .0
            .get("email_verified")
            .is_some_and(|is| !(is.as_bool() == Some(true) || is.as_str() == Some("true")));
        if rules.user_claim == "email" && is_unverified {
            return Err(Fault::Claim("email_verified"));
        }
        Ok(name.to_owned())
    }

    fn scopes(&self, rules: &Rules) -> Result<Vec<String>, Fault> {
        let said: Vec<&str> = match self.0.get(&rules.scopes_claim) {
            None => Vec::new(),
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(many)) if many.iter().all(Value::is_string) => {
                many.iter().filter_map(Value::as_str).collect()
            }
            Some(_) => return Err(Fault::Claim("of the scopes")),
        };
        Ok(SCOPES.iter().filter(|scope| said.contains(scope)).map(|scope| (*scope).to_owned()).collect())
    }
}
