//! A tenant's MCP servers.

use answerable_core::FieldError;
use answerable_core::field_error::pointer_token;
use answerable_core::template::{Filling, Slot, Template};
use answerable_ports::{McpFault, is_reserved_header};
use answerable_store::{Counted, TenantTx};
use axum::extract::State;
use axum::http::HeaderValue;
use serde_json::Value;

use crate::admit::room_for;
use crate::auth::{Admin, Tenant};
use crate::body::Body;
use crate::page::Page;
use crate::path::{Id, check_name};
use crate::problem::{Answer, Problem};
use crate::router::{Route, delete, get, put};
use crate::shapes::mcp::{McpServer, McpServerSpec, OfferedTools};
use crate::state::AppState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/mcp_servers", list),
        get("/v1/mcp_servers/{name}", fetch),
        put("/v1/mcp_servers/{name}", store),
        delete("/v1/mcp_servers/{name}", remove),
        get("/v1/mcp_servers/{name}/tools", tools),
    ]
}

async fn list(State(state): State<AppState>, tenant: Tenant<Admin>, page: Page) -> Result<Answer, Problem> {
    let after = page.after_named("mcp_servers")?;
    let rows = state.store.tenant(tenant.id).await?.mcp_server_list(after, page.fetch()).await?;
    page.answer("mcp_servers", rows, |row| Page::named_place(row.created_at, &row.name), McpServer::from)
}

async fn fetch(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
) -> Result<Answer, Problem> {
    let row = state.store.tenant(tenant.id).await?.mcp_server_fetch(&name).await?;
    Answer::ok(&row.map(McpServer::from).ok_or_else(Problem::not_found)?)
}

async fn store(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
    Body(spec): Body<McpServerSpec>,
) -> Result<Answer, Problem> {
    check_name(&name)?;
    let mut tx = tenant.begin(&state).await?;
    check_place(&state, &spec)?;
    let faults = header_faults(&mut tx, &spec).await?;
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    if tx.mcp_server_fetch(&name).await?.is_none() {
        room_for(&mut tx, Counted::McpServers).await?;
    }
    let row = tx.mcp_server_put(&name, &spec.into()).await?;
    tx.commit().await?;
    Answer::ok(&McpServer::from(row))
}

fn check_place(state: &AppState, spec: &McpServerSpec) -> Result<(), Problem> {
    if let Some(url) = &spec.url {
        return state.check_address(url, "/url");
    }
    let command = spec.stdio.as_deref().unwrap_or_default();
    if state.config.mcp_commands.contains(command) {
        return Ok(());
    }
    Err(Problem::invalid_at("/stdio", "the operator's configuration names no such command"))
}

/// Headers that can't be sent, or name what isn't there.
async fn header_faults(tx: &mut TenantTx, spec: &McpServerSpec) -> Result<Vec<FieldError>, Problem> {
    let (mut faults, mut named) = (Vec::new(), Vec::new());
    for (name, value) in &spec.headers {
        let here = format!("/headers/{}", pointer_token(name));
        if let Some(message) = name_fault(name, spec) {
            faults.push(FieldError::new(&here, message));
        }
        match secrets_of(value) {
            Ok(secrets) => named.extend(secrets.into_iter().map(|secret| (here.clone(), secret))),
            Err(message) => faults.push(FieldError::new(&here, message)),
        }
    }
    for (here, secret) in named {
        if tx.secret_fetch(&secret).await?.is_none() {
            faults.push(FieldError::new(here, format!("there is no secret {secret}")));
        }
    }
    Ok(faults)
}

fn name_fault(name: &str, spec: &McpServerSpec) -> Option<&'static str> {
    if is_reserved_header(name) {
        return Some("this header is set by the runtime");
    }
    let same = spec.headers.keys().filter(|other| other.eq_ignore_ascii_case(name)).count();
    (same > 1).then_some("this header is there twice: case doesn't tell headers apart")
}

/// The secrets that a header's value names, or what is wrong with it.
fn secrets_of(value: &str) -> Result<Vec<String>, String> {
    let template = Template::parse(value).map_err(|error| error.to_string())?;
    if !template.slots().all(|slot| matches!(slot, Slot::Secret(_))) {
        return Err("only {{secret.NAME}} may stand here".into());
    }
    // Slots don't go out, so that only what is around them counts.
    let nothing = template.secrets().map(|name| (name.to_owned(), String::new())).collect();
    let with = Filling { input: &Value::Null, context: &Value::Null, secrets: &nothing, idempotency_key: "" };
    let literal = template.fill(&with, str::to_owned).map_err(|error| error.to_string())?;
    if HeaderValue::from_str(&literal).is_err() {
        return Err("a header has no line ends and no other controls".into());
    }
    Ok(template.secrets().map(str::to_owned).collect())
}

async fn remove(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
) -> Result<Answer, Problem> {
    let mut tx = tenant.begin(&state).await?;
    if !tx.mcp_server_delete(&name).await? {
        return Err(Problem::not_found());
    }
    tx.commit().await?;
    Ok(Answer::no_content())
}

/// Asks the server what it offers now.
async fn tools(
    State(state): State<AppState>,
    tenant: Tenant<Admin>,
    Id(name): Id<String>,
) -> Result<Answer, Problem> {
    let known = state.store.tenant(tenant.id).await?.mcp_server_fetch(&name).await?;
    known.ok_or_else(Problem::not_found)?;
    match state.config.tool_source.list(tenant.id, &name).await {
        Ok(tools) => Answer::ok(&OfferedTools::of(&name, tools)),
        Err(fault @ McpFault::Away(_)) => Err(Problem::away(fault.to_string())),
        Err(fault @ McpFault::Refused(_)) => Err(Problem::conflict(fault.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_may_name_secrets_and_nothing_else() {
        assert_eq!(secrets_of("Bearer {{secret.a}}{{ secret.b }}").expect("legal"), ["a", "b"]);
        assert!(secrets_of("plain\ttext").expect("legal").is_empty());
        for odd in
            ["{{input.a}}", "{{context.a}}", "{{idempotency_key}}", "{{", "{{env.A}}", "a\r\nb: c", "a\u{7f}"]
        {
            assert!(secrets_of(odd).is_err(), "{odd}");
        }
    }
}
