//! Ids: a type prefix over a UUIDv7, so that an id of one kind is never taken for another's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use uuid::Uuid;

/// The text is no id of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of this kind")]
pub struct NotAnId;

fn parse(prefix: &str, text: &str) -> Result<Uuid, NotAnId> {
    let rest = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).ok_or(NotAnId)?;
    let id = Uuid::try_parse(rest).map_err(|_| NotAnId)?;
    // One spelling an id: upper case, braces and the like are refused.
    if id.hyphenated().to_string() == rest { Ok(id) } else { Err(NotAnId) }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The prefix that this kind of id begins with.
            pub const PREFIX: &'static str = $prefix;
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.hyphenated())
            }
        }
        impl FromStr for $name {
            type Err = NotAnId;
            fn from_str(text: &str) -> Result<Self, NotAnId> {
                parse($prefix, text).map(Self)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

ids! {
    /// A tenant.
    TenantId = "ten";
    /// An API key (its public part).
    KeyId = "key";
    /// An agent.
    AgentId = "agt";
    /// A run.
    RunId = "run";
    /// A thread: a conversation over several runs.
    ThreadId = "thr";
    /// An approval.
    ApprovalId = "apr";
    /// A tool call; the runtime's own, never the model's.
    CallId = "tc";
    /// A ledger entry.
    LedgerId = "led";
    /// A stored event.
    EventId = "evt";
    /// An artifact.
    ArtifactId = "art";
    /// A webhook endpoint.
    WebhookId = "whk";
    /// A webhook delivery.
    DeliveryId = "dlv";
    /// A message.
    MessageId = "msg";
    /// A remembered approval.
    GrantId = "grt";
    /// An entry of the record of who did what.
    AuditId = "aud";
    /// A workspace.
    WorkspaceId = "wsp";
    /// A schedule.
    ScheduleId = "sch";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling_and_one_kind() {
        let id = RunId(Uuid::from_u128(7));
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "run_", "run_7", "apr_00000000-0000-0000-0000-000000000007", "run_\0"] {
            assert_eq!(wrong.parse::<RunId>(), Err(NotAnId), "{wrong:?}");
        }
        let upper = "run_0000000A-0000-0000-0000-00000000000A";
        assert_eq!(upper.parse::<RunId>(), Err(NotAnId));
    }
}
