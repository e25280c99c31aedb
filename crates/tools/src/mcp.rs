//! Tools of MCP servers, under the same rules as any others (contract, "Behaviours decided" 12).
//!
//! The parts: `pool` has the sessions, one for each server (`slot`) of each tenant, within bounds (`places`); `session`
//! opens one, numbers its requests and calls off what nobody awaits; `over_http` and `over_stdio` carry its messages;
//! `message` reads and writes these, `ears` hears what comes unasked; `listing` reads a list of tools, `content` what a
//! tool said, `few` lists within bounds; `failure` says what it means if nothing came, `unknown` if it isn't known where
//! to ask; `secrets` has what goes out and must not come back.
//!
//! The types of the protocol are those of `rmcp`; its clients are not used. Whether a write may be sent again hangs on
//! what is known of each request: whether a byte of it left, which status it got, whether the session was lost (404: it
//! was not looked at) or the line cut (nobody knows). `rmcp`'s transports make one error of these, open lost sessions
//! again by themselves, and read a list of tools all or nothing, where here one odd tool spoils no other.
//!
//! Invariant: an attempt is `NotDone` or `Refused` only where the server can't have done it, or says that it didn't.
//! Invariant: a session belongs to one tenant.

mod content;
mod ears;
mod failure;
mod few;
mod listing;
mod message;
mod over_http;
mod over_stdio;
mod places;
mod pool;
mod secrets;
mod session;
mod slot;
mod unknown;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use answerable_core::id::{CallId, TenantId};
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{
    Came, ListedTool, McpFault, McpServers, McpTarget, PreparedCall, StoreError, ToolExecutor, ToolSource,
};
use async_trait::async_trait;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, timeout_at};

use self::failure::Failure;
pub use self::over_stdio::StdioCommand;
pub use self::pool::McpLimits;
use self::pool::Pool;
use self::unknown::Unknown;
use crate::egress::GuardedClient;
use crate::mask::Mask;

/// Calls that are called off at once; whoever misses one goes on as if it were wanted.
const CALLED_OFF: usize = 4096;
/// Tries of a list, and the pauses between them.
const PAUSES_MS: [u64; 2] = [250, 1500];
/// The longest pause that a server may ask for between tries of a list.
const LONGEST_PAUSE_MS: u64 = 5000;

/// Runs tools of kind `mcp`, and lists them.
#[derive(Clone)]
pub struct McpTools {
    pool: Arc<Pool>,
    commands: Arc<BTreeMap<String, StdioCommand>>,
    servers: Arc<dyn McpServers>,
    /// Tells of calls that nobody wants any more.
    off: broadcast::Sender<CallId>,
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl McpTools {
    /// Finds servers in `servers` and reaches them through `client`, or as one of the operator's `commands`.
    #[must_use]
    pub fn new(
        client: GuardedClient,
        servers: Arc<dyn McpServers>,
        commands: BTreeMap<String, StdioCommand>,
    ) -> Self {
        Self::with_limits(client, servers, commands, McpLimits::default())
    }

    /// The same, with other bounds on its sessions.
    #[must_use]
    pub fn with_limits(
        client: GuardedClient,
        servers: Arc<dyn McpServers>,
        commands: BTreeMap<String, StdioCommand>,
        limits: McpLimits,
    ) -> Self {
        let pool = Arc::new(Pool::new(client, commands.clone(), limits));
        Self { pool, commands: Arc::new(commands), servers, off: broadcast::channel(CALLED_OFF).0 }
    }

    /// A tenant's server, with all that it is called with.
    async fn target(&self, tenant_id: TenantId, server: &str) -> Result<McpTarget, Unknown> {
        match self.servers.mcp_target(tenant_id, server).await {
            Ok(Some(McpTarget { missing: Some(name), .. })) => Err(Unknown::Secret(name)),
            Ok(Some(target)) => Ok(target),
            Ok(None) => Err(Unknown::Server(server.to_owned())),
            Err(StoreError::Away(_)) => Err(Unknown::Away),
            Err(StoreError::Broken(_)) => Err(Unknown::Broken),
        }
    }

    /// One attempt of a call. A session that is lost is opened again, once, and the call sent again: it was not looked at.
    async fn call(
        &self,
        call: &PreparedCall,
        target: &McpTarget,
        tool: &str,
        mask: &Mask,
        off: &mut Off,
    ) -> Came {
        let deadline = Instant::now() + Duration::from_millis(call.tool.timeout_ms());
        let timeout_ms = call.tool.timeout_ms();
        let mut is_again = false;
        loop {
            let opening = deadline.min(Instant::now() + Duration::from_millis(target.timeout_ms));
            let session = match self.pool.session(target, opening).await {
                Ok(session) => session,
                Err(failure) => return failure.before_a_call(mask, timeout_ms).into(),
            };
            match session.call(params(call, tool), &call.traceparent, off.wait(), deadline).await {
                Ok(result) => return content::read(&result, call, mask),
                Err(Failure::Lost) if !is_again => self.pool.lose(target, &session),
                Err(failure) => {
                    if failure == Failure::Lost || failure.hints_at_lost_session() {
                        self.pool.lose(target, &session);
                    }
                    return failure.into_attempt(mask, timeout_ms).into();
                }
            }
            is_again = true;
        }
    }

    async fn list_once(
        &self,
        target: &McpTarget,
        deadline: Instant,
        mask: &Mask,
    ) -> Result<Vec<ListedTool>, Failure> {
        let mut is_again = false;
        loop {
            let session = self.pool.session(target, deadline).await?;
            match listing::read(&session, deadline, mask).await {
                Err(failure) if failure == Failure::Lost || failure.hints_at_lost_session() => {
                    self.pool.lose(target, &session);
                    if is_again {
                        return Err(failure);
                    }
                }
                done => return done,
            }
            is_again = true;
        }
    }
}

#[async_trait]
impl ToolExecutor for McpTools {
    /// One attempt. Dropping the future calls it off on the server too.
    async fn run(&self, call: &PreparedCall) -> Came {
        let mut off = Off { told: self.off.subscribe(), call: call.call_id, is_off: false };
        let Some(at) = &call.tool.mcp else {
            return Attempt::Refused(ErrorCode::Internal, "the tool has no server".into()).into();
        };
        let target = match self.target(call.tenant_id, &at.server).await {
            Ok(target) => target,
            Err(unknown) => return unknown.into_attempt().into(),
        };
        let mask = secrets::mask(&target, &self.commands);
        self.call(call, &target, &at.tool, &mask, &mut off).await
    }

    fn call_off(&self, call: CallId) {
        // Nobody may listen.
        let _ = self.off.send(call);
    }
}

#[async_trait]
impl ToolSource for McpTools {
    /// All of it within the server's own time.
    async fn list(&self, tenant_id: TenantId, server: &str) -> Result<Vec<ListedTool>, McpFault> {
        let target = self.target(tenant_id, server).await.map_err(Unknown::into_fault)?;
        let mask = secrets::mask(&target, &self.commands);
        let deadline = Instant::now() + Duration::from_millis(target.timeout_ms);
        let mut pauses = PAUSES_MS.into_iter();
        loop {
            let failure = match self.list_once(&target, deadline, &mask).await {
                Ok(tools) => return Ok(tools),
                Err(failure) => failure,
            };
            let wanted = failure.after_ms().map_or(0, |after| after.min(LONGEST_PAUSE_MS));
            let fault = failure.into_fault(&mask, target.timeout_ms);
            let Some(pause) = pauses.next().filter(|_| matches!(fault, McpFault::Away(_))) else {
                return Err(fault);
            };
            if timeout_at(deadline, sleep(Duration::from_millis(pause.max(wanted)))).await.is_err() {
                return Err(fault);
            }
        }
    }

    fn changes(&self, tenant_id: TenantId, server: &str) -> u64 {
        self.pool.changes(tenant_id, server)
    }
}

/// Whether a call is off.
struct Off {
    told: broadcast::Receiver<CallId>,
    call: CallId,
    is_off: bool,
}

impl Off {
    /// Returns once it is.
    async fn wait(&mut self) {
        while !self.is_off {
            match self.told.recv().await {
                Ok(call) => self.is_off = call == self.call,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// What a call is sent with. The far side can tell by the ids which call it is, and that one sent twice is the same.
fn params(call: &PreparedCall, tool: &str) -> Value {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    if let Value::Object(input) = &call.input {
        params = params.with_arguments(input.clone());
    }
    let mut params = serde_json::to_value(params).unwrap_or_else(|_| json!({"name": tool}));
    params["_meta"] = json!({
        "traceparent": call.traceparent,
        "answerable/run_id": call.run_id.to_string(),
        "answerable/call_id": call.call_id.to_string(),
        "answerable/attempt": call.attempt,
        "answerable/idempotency_key": call.idempotency_key,
    });
    params
}
