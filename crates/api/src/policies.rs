//! Policies as they come in requests: a tenant's, or a run's own.

use answerable_core::field_error;
use answerable_core::permission::{CompiledPolicy, Owner, Policy};
use serde_json::Value;

use crate::problem::Problem;

/// Bytes that a tenant's policy may have.
const MAX_TENANT: usize = 256 * 1024;
/// Bytes that a run's own policy may have.
const MAX_RUN: usize = 64 * 1024;

/// Reads a policy that stands at `at` of a body, ready to judge.
///
/// # Errors
/// 422: it is too long, or makes no sense, with every fault of the first kind that it has.
pub(crate) fn read(policy: &Value, owner: Owner, at: &str) -> Result<CompiledPolicy, Problem> {
    let most = if owner == Owner::Run { MAX_RUN } else { MAX_TENANT };
    if policy.to_string().len() > most {
        return Err(Problem::invalid_at(at, format!("has at most {most} bytes")));
    }
    let read: Policy =
        field_error::read(policy.clone()).map_err(|fault| Problem::invalid(vec![fault.under(at)]))?;
    CompiledPolicy::compile(&read, owner)
        .map_err(|faults| Problem::invalid(faults.into_iter().map(|fault| fault.under(at)).collect()))
}

/// Reads a stored policy.
///
/// # Errors
/// In words, why it can't be judged: then nothing may run.
pub(crate) fn stored(policy: Value, owner: Owner) -> Result<CompiledPolicy, String> {
    let told = |fault: answerable_core::FieldError| format!("{}: {}", fault.pointer, fault.message);
    let read: Policy = field_error::read(policy).map_err(told)?;
    CompiledPolicy::compile(&read, owner)
        .map_err(|faults| faults.into_iter().map(told).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A policy of about that many bytes.
    fn long(bytes: usize) -> Value {
        json!({"rules": [{"effect": "deny", "reason": "x".repeat(bytes)}]})
    }

    #[test]
    fn policies_are_as_long_as_their_owner_may_have() {
        for (owner, most) in [(Owner::Run, MAX_RUN), (Owner::Tenant, MAX_TENANT)] {
            assert!(read(&long(most - 100), owner, "/policy").is_ok());
            assert!(read(&long(most), owner, "/policy").is_err());
        }
    }

    #[test]
    fn what_is_stored_is_read_as_strictly_as_what_comes() {
        for (policy, place) in [
            (json!([]), ""),
            (json!(null), ""),
            (json!({"rulez": []}), "/rulez"),
            (json!({"rules": [{"effect": "alow"}]}), "/rules/0/effect"),
            (json!({"rules": [{"effect": "deny", "tools": "pay"}]}), "/rules/0/tools"),
            (json!({"rules": [{"effect": "deny", "input": {"type": "objekt"}}]}), "/rules/0/input"),
            (json!({"rules": [{"effect": "ask", "approvals": 0}]}), "/rules/0/approvals"),
            (json!({"rules": [{"effect": "ask", "remind_every_ms": 5}]}), "/rules/0/remind_every_ms"),
        ] {
            let fault = stored(policy.clone(), Owner::Tenant).expect_err("no policy");
            assert!(fault.starts_with(place), "{policy}: {fault}");
            assert!(read(&policy, Owner::Tenant, "").is_err(), "{policy}");
        }
    }
}
