//! Whether callers keep to the protocol.

use std::collections::HashSet;

use serde_json::Value;

use super::Script;
use crate::request::RecordedRequest;

/// A session as it was opened.
#[derive(Debug)]
pub(super) struct Session {
    /// Who opened it, by the `authorization` header.
    pub(super) caller: String,
    pub(super) is_ready: bool,
    pub(super) ids: HashSet<String>,
}

impl Script {
    /// Takes note of a message of a session, and of what is wrong with it. False where there is no such session.
    pub(super) fn watch(&mut self, request: &RecordedRequest, method: &str, message: &Value) -> bool {
        let mut faults = Vec::new();
        let accepts = request.header("accept").unwrap_or_default();
        if request.method == "POST"
            && !(accepts.contains("application/json") && accepts.contains("text/event-stream"))
        {
            faults.push(format!("{method} accepts {accepts:?} only"));
        }
        let id = request.header("mcp-session-id").unwrap_or_default();
        let caller = request.header("authorization").unwrap_or_default();
        let session = self.sessions.get_mut(id);
        let is_known = session.is_some();
        if let Some(session) = session {
            if session.caller != caller {
                faults.push(format!("a session of {} is used by {caller}", session.caller));
            }
            if !message["id"].is_null()
                && message["method"].is_string()
                && !session.ids.insert(message["id"].to_string())
            {
                faults.push(format!("the id {} comes twice", message["id"]));
            }
            if method != "initialize" && request.header("mcp-protocol-version").is_none() {
                faults.push(format!("{method} names no version"));
            }
            if method.starts_with("tools/") && !session.is_ready {
                faults.push(format!("{method} comes before notifications/initialized"));
            }
            session.is_ready |= method == "notifications/initialized";
        }
        self.faults.extend(faults);
        is_known
    }
}
