//! What is known of one server of one tenant: its session, or why there is none, and how often its tools may have changed.

use std::collections::HashMap;
use std::sync::Arc;

use answerable_core::id::TenantId;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ears::Ears;
use super::failure::Failure;
use super::session::Session;

/// Whose server it is, and the tenant's name for it.
pub(super) type Key = (TenantId, String);

/// One server.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) ears: Ears,
    /// Held while the session is opened, so that it is opened once.
    pub(super) open: Mutex<Opened>,
}

/// The session with a server, or why there is none.
#[derive(Debug, Default)]
pub(super) struct Opened {
    session: Option<Arc<Session>>,
    failed: Option<Failed>,
}

/// An opening that failed.
#[derive(Debug)]
struct Failed {
    at: Instant,
    version: String,
    failure: Failure,
}

impl Opened {
    /// What whoever has waited since `asked` may have at once: the session, or the failure of an opening that ended
    /// meanwhile. So of all that wait for a server which is gone, one has it tried, and not each in turn.
    pub(super) fn known(
        &mut self,
        version: &str,
        asked: Instant,
        ears: &Ears,
    ) -> Option<Result<Arc<Session>, Failure>> {
        if let Some(session) = &self.session {
            if session.version() == version && !session.is_over() {
                session.touch();
                return Some(Ok(Arc::clone(session)));
            }
            // Where it was lost, that was noted then.
            if !session.is_lost() {
                ears.note_change();
            }
            self.session = None;
        }
        let failed = self.failed.as_ref().filter(|failed| failed.version == version && failed.at >= asked);
        failed.map(|failed| Err(failed.failure.clone()))
    }

    /// Keeps what came of an opening that had time until `deadline`. Where that was why it failed, whoever has more time may
    /// have more luck.
    pub(super) fn keep(&mut self, version: &str, opened: &Result<Arc<Session>, Failure>, deadline: Instant) {
        let at = Instant::now();
        self.session = opened.as_ref().ok().cloned();
        let failure = opened.as_ref().err().filter(|_| at < deadline);
        self.failed =
            failure.map(|failure| Failed { at, version: version.to_owned(), failure: failure.clone() });
    }

    /// The session, where nobody else has it.
    pub(super) fn idle(&self) -> Option<&Arc<Session>> {
        self.session.as_ref().filter(|session| is_idle(session))
    }
}

/// Nobody has it but its slot.
pub(super) fn is_idle(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) == 1
}

impl Slot {
    pub(super) fn close_if(&self, condition: impl Fn(&Arc<Session>) -> bool) {
        let Ok(mut open) = self.open.try_lock() else { return };
        if open.session.take_if(|session| condition(session)).is_some() {
            // Without a session no change is heard of.
            self.ears.note_change();
        }
    }
}

/// All servers that are remembered.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) by_key: HashMap<Key, Arc<Slot>>,
    /// What slots that were forgotten had counted up to: those made after them begin there.
    pub(super) floor: u64,
}

impl Slots {
    /// Lets go of what nobody uses. Whoever asks for its count later finds a higher one.
    pub(super) fn forget_unused(&mut self) {
        let mut highest = 0;
        self.by_key.retain(|_, slot| {
            let is_unused =
                Arc::strong_count(slot) == 1 && slot.open.try_lock().is_ok_and(|open| open.session.is_none());
            if is_unused {
                highest = highest.max(slot.ears.changes() + 1);
            }
            !is_unused
        });
        self.floor += highest;
    }
}
