//! What the API shows, by resource.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod calls;
pub(crate) mod content;
pub(crate) mod evidence;
pub(crate) mod grants;
pub(crate) mod heirs;
pub(crate) mod inbox;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod policy_check;
pub(crate) mod replays;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod settings;
pub(crate) mod tenants;
pub(crate) mod text;
pub(crate) mod threads;
pub(crate) mod trace;
pub(crate) mod usage;
pub(crate) mod webhooks;
pub(crate) mod workspaces;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};

/// A moment as the API writes it: RFC 3339, UTC, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) DateTime<Utc>);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}
