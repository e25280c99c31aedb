//! Servers of which it isn't known how they are called. Nothing is sent to them.

use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::McpFault;

/// Why it isn't known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The tenant has none of that name.
    Server(String),
    /// A header of it names a secret of that name, and the tenant has none.
    Secret(String),
    /// The settings can't be read now.
    Away,
    /// They can't be read at all.
    Broken,
}

impl Unknown {
    /// What it means for a call.
    pub(super) fn into_attempt(self) -> Attempt {
        let why = format!("{}; nothing was sent", self.why());
        match self {
            Self::Server(_) => Attempt::Refused(ErrorCode::NotFound, why),
            Self::Secret(_) => Attempt::Refused(ErrorCode::PermissionDenied, why),
            Self::Away => Attempt::NotDone(ErrorCode::Unavailable, why, None),
            Self::Broken => Attempt::Refused(ErrorCode::Internal, why),
        }
    }

    /// What it means for a list.
    pub(super) fn into_fault(self) -> McpFault {
        let why = self.why();
        if self == Self::Away {
            McpFault::Away(why)
        } else {
            McpFault::Refused(format!("{why}; nothing was sent"))
        }
    }

    fn why(&self) -> String {
        match self {
            Self::Server(name) => format!("there is no MCP server {name}"),
            Self::Secret(name) => format!("secret {name} is not there"),
            Self::Away => "the server's settings can't be read now".into(),
            Self::Broken => "the server's settings can't be read".into(),
        }
    }
}
