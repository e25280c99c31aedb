//! The state of a line between one server and PostgreSQL.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use super::talk::Talk;

/// How a line behaves. All at rest: everything passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// Nothing passes in either direction, and nobody is told.
    pub hole: bool,
    /// The same for connections that listen only.
    pub hole_for_listeners: bool,
    /// Notifications are lost on the way.
    pub lose_notifications: bool,
    /// New connections are closed at once.
    pub refuse: bool,
    /// Each message takes so much longer.
    pub delay: Duration,
    /// Raised to cut every connection.
    cuts: u64,
}

/// A line, shared by all its connections.
#[derive(Debug, Default)]
pub(super) struct Line {
    mode: watch::Sender<Mode>,
    /// Answers of commits that are still to be dropped.
    to_drop: AtomicU64,
    dropped: AtomicU64,
    server: Mutex<Option<Uuid>>,
}

impl Line {
    /// The server that uses it has named itself.
    pub(super) fn belongs_to(&self, server: Uuid) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }

    pub(super) fn server(&self) -> Option<Uuid> {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Mode)) {
        self.mode.send_modify(change);
    }

    pub(super) fn cut_all(&self) {
        self.set(|mode| mode.cuts += 1);
    }

    /// Back to rest. Connections stay as they are: what was held back now passes.
    pub(super) fn heal(&self) {
        self.to_drop.store(0, Ordering::SeqCst);
        self.set(|mode| *mode = Mode { cuts: mode.cuts, ..Mode::default() });
    }

    pub(super) fn drop_answers(&self, count: u64) {
        self.to_drop.store(count, Ordering::SeqCst);
    }

    pub(super) fn answers_dropped(&self) -> u64 {
        self.dropped.load(Ordering::SeqCst)
    }

    pub(super) fn refuses(&self) -> bool {
        self.mode.borrow().refuse
    }

    pub(super) fn delay(&self) -> Duration {
        self.mode.borrow().delay
    }

    pub(super) fn loses_notifications(&self) -> bool {
        self.mode.borrow().lose_notifications
    }

    /// Returns at the next cut after now.
    pub(super) fn cut(&self) -> impl Future<Output = ()> + use<> {
        let mut mode = self.mode.subscribe();
        let cuts = mode.borrow_and_update().cuts;
        async move {
            // The line outlives its connections; a line that is gone is cut.
            let _ = mode.wait_for(|mode| mode.cuts != cuts).await;
        }
    }

    /// Returns when something may pass.
    pub(super) async fn open(&self, talk: &Talk) {
        let listens = talk.is(|talk| &talk.listens);
        let mut mode = self.mode.subscribe();
        let _ = mode.wait_for(|mode| !(mode.hole || listens && mode.hole_for_listeners)).await;
    }

    /// Whether the answer of the commit that is about to pass is to be dropped.
    pub(super) fn takes_a_drop(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.to_drop.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}
