//! Failed attempts.

use std::time::Duration;

use answerable_core::model::{FailureKind, ModelFailure};
use answerable_tools::Fault;

/// A failure that tells of no tokens and no time to come back.
pub(crate) fn of(kind: FailureKind, status: Option<u16>, message: impl Into<String>) -> ModelFailure {
    ModelFailure { kind, status, message: message.into(), retry_after_ms: None, usage: None }
}

/// No whole reply in time.
pub(crate) fn late(timeout: Duration) -> ModelFailure {
    of(FailureKind::Passing, None, format!("no whole reply within {} ms", timeout.as_millis()))
}

/// No answer at all.
pub(crate) fn unanswered(fault: Fault) -> ModelFailure {
    match fault {
        Fault::Refused(refused) => of(FailureKind::Unusable, None, refused.to_string()),
        Fault::NotConnected => of(FailureKind::Passing, None, "no connection could be made"),
        Fault::Cut => of(FailureKind::Passing, None, "the connection was cut before an answer came"),
    }
}
