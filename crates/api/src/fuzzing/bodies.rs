//! Bodies of requests, of every operation that takes JSON.

use answerable_core::agent::{self, AgentSpec};
use answerable_core::input::{read_content, read_input};
use answerable_core::permission::Owner;
use answerable_core::registry::Registry;
use answerable_core::schedule::Recurrence;
use answerable_core::{FieldError, field_error, provider};
use http::Method;
use serde_json::Value;

use super::check_refusal;
use crate::admit;
use crate::agents;
use crate::body::{self, Hashed, Nothing, RequestBody};
use crate::document::{self, Operation};
use crate::policies;
use crate::problem::Problem;
use crate::shapes::agents::AgentBody;
use crate::shapes::approvals::{BulkDecisionRequest, DecisionRequest};
use crate::shapes::calls::ToolResultSubmission;
use crate::shapes::evidence::{ResolveRequest, SteerRequest};
use crate::shapes::heirs::{ContinueRequest, ForkRequest};
use crate::shapes::keys::{KeyCreate, KeyRotate};
use crate::shapes::mcp::McpServerSpec;
use crate::shapes::policy_check::PolicyCheckRequest;
use crate::shapes::replays::ReplayRequest;
use crate::shapes::runs::{CancelRequest, RunCreate, RunUpdate};
use crate::shapes::schedules::{ScheduleCreate, ScheduleUpdate};
use crate::shapes::settings::{PolicyBody, ProviderSpec, SecretSpec};
use crate::shapes::tenants::{TenantCreate, TenantUpdate};
use crate::shapes::threads::ThreadCreate;
use crate::shapes::webhooks::{WebhookCreate, WebhookUpdate};

/// What is done with a body before the store is asked.
type Judge = fn(&Operation, &[u8]) -> Result<(), Problem>;

/// Every operation with a JSON body, and how that is judged.
pub(super) const OPERATIONS: &[(Method, &str, Judge)] = &[
    (Method::POST, "/v1/runs", |operation, bytes| run(&read::<RunCreate>(operation, bytes)?)),
    (Method::PATCH, "/v1/runs/{run_id}", shape::<RunUpdate>),
    (Method::POST, "/v1/runs/{run_id}/cancel", shape::<CancelRequest>),
    (Method::POST, "/v1/runs/{run_id}/messages", |operation, bytes| {
        content(&read::<SteerRequest>(operation, bytes)?.content)
    }),
    (Method::POST, "/v1/runs/{run_id}/continue", shape::<ContinueRequest>),
    (Method::POST, "/v1/runs/{run_id}/fork", shape::<ForkRequest>),
    (Method::POST, "/v1/runs/{run_id}/replay", shape::<ReplayRequest>),
    (Method::POST, "/v1/runs/{run_id}/tool_results", shape::<ToolResultSubmission>),
    (Method::POST, "/v1/runs/{run_id}/ledger/{ledger_id}/resolve", shape::<ResolveRequest>),
    (Method::POST, "/v1/approvals/decisions", shape::<BulkDecisionRequest>),
    (Method::POST, "/v1/approvals/{approval_id}/decision", shape::<DecisionRequest>),
    (Method::POST, "/v1/threads", shape::<ThreadCreate>),
    (Method::POST, "/v1/agents", |operation, bytes| agent(read::<AgentBody>(operation, bytes)?.0, "")),
    (Method::PUT, "/v1/agents/{agent_id}", |operation, bytes| {
        agent(read::<AgentBody>(operation, bytes)?.0, "")
    }),
    (Method::PUT, "/v1/providers/{name}", |operation, bytes| {
        let spec = read::<ProviderSpec>(operation, bytes)?;
        provider::check_options(&spec.kind, &spec.options).map_err(|fault| Problem::invalid(vec![fault]))
    }),
    (Method::PUT, "/v1/mcp_servers/{name}", shape::<McpServerSpec>),
    (Method::PUT, "/v1/secrets/{name}", shape::<SecretSpec>),
    (Method::PUT, "/v1/policy", |operation, bytes| {
        policies::read(&read::<PolicyBody>(operation, bytes)?.0, Owner::Tenant, "").map(drop)
    }),
    (Method::POST, "/v1/policy/check", shape::<PolicyCheckRequest>),
    (Method::POST, "/v1/signing_secret/rotate", shape::<Nothing>),
    (Method::POST, "/v1/webhooks", shape::<WebhookCreate>),
    (Method::PATCH, "/v1/webhooks/{webhook_id}", shape::<WebhookUpdate>),
    (Method::POST, "/v1/webhooks/{webhook_id}/test", shape::<Nothing>),
    (Method::POST, "/v1/webhooks/{webhook_id}/rotate_secret", shape::<Nothing>),
    (Method::POST, "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", shape::<Nothing>),
    (Method::POST, "/v1/schedules", |operation, bytes| {
        let body = read::<ScheduleCreate>(operation, bytes)?;
        let zone = body.timezone.as_deref().unwrap_or("UTC");
        Recurrence::read(&body.cron, zone).map(drop).map_err(Problem::invalid)
    }),
    (Method::PATCH, "/v1/schedules/{schedule_id}", shape::<ScheduleUpdate>),
    (Method::POST, "/v1/schedules/{schedule_id}/trigger", shape::<Nothing>),
    (Method::POST, "/v1/tenants", shape::<TenantCreate>),
    (Method::PATCH, "/v1/tenants/{tenant_id}", shape::<TenantUpdate>),
    (Method::POST, "/v1/tenants/{tenant_id}/keys", shape::<KeyCreate>),
    (Method::POST, "/v1/tenants/{tenant_id}/keys/{key_id}/rotate", shape::<KeyRotate>),
];

/// A request's body is taken or refused with what is wrong. The first line names the operation, as `POST /v1/runs`, or one byte
/// chooses it; the rest is the body.
pub fn requests(data: &[u8]) {
    let Some((operation, judge, body)) = chosen(data) else { return };
    if let Err(problem) = judge(operation, body) {
        check_refusal(&problem);
    }
}

fn chosen(data: &[u8]) -> Option<(&'static Operation, Judge, &[u8])> {
    let (line, body) = data.split_at(data.iter().position(|byte| *byte == b'\n')?);
    let named = OPERATIONS.iter().find(|(method, path, _)| line == format!("{method} {path}").as_bytes());
    let (method, path, judge) = match named {
        Some(named) => named,
        None => &OPERATIONS[usize::from(*line.first()?) % OPERATIONS.len()],
    };
    let operation = document::operation(method, path).expect("a test compares the table with the document");
    Some((operation, *judge, &body[1..]))
}

fn read<T: RequestBody>(operation: &Operation, bytes: &[u8]) -> Result<T, Problem> {
    let Hashed { body, hash } = body::judge::<T>(bytes, true, operation)?;
    let again = body::judge::<T>(bytes, true, operation)?.hash;
    assert_eq!(hash, again, "the same body has the same hash");
    Ok(body)
}

fn shape<T: RequestBody>(operation: &Operation, bytes: &[u8]) -> Result<(), Problem> {
    read::<T>(operation, bytes).map(drop)
}

fn run(body: &RunCreate) -> Result<(), Problem> {
    admit::context(body.context.clone())?;
    if let Some(spec) = &body.agent {
        agent(spec.clone(), "/agent")?;
    }
    if let Some(policy) = &body.policy {
        policies::read(policy, Owner::Run, "/policy")?;
    }
    read_input(&body.input).map(drop).map_err(|fault| Problem::invalid(vec![fault.under("/input")]))
}

fn content(content: &Value) -> Result<(), Problem> {
    read_content(content).map(drop).map_err(|fault| Problem::invalid(vec![fault.under("/content")]))
}

fn agent(value: Value, at: &str) -> Result<(), Problem> {
    let refuse =
        |faults: Vec<FieldError>| Problem::invalid(faults.into_iter().map(|fault| fault.under(at)).collect());
    let spec: AgentSpec =
        field_error::read(agents::with_defaults(value)).map_err(|fault| refuse(vec![fault]))?;
    let faults = agent::check(&spec);
    if !faults.is_empty() {
        return Err(refuse(faults));
    }
    Registry::compile(spec).map(drop).map_err(refuse)
}
