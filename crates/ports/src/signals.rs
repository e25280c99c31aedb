//! Who is told, within this process, that something happened: watchers of runs, the scheduler, the owner of a run.
//!
//! A signal is a hint and may be lost; whoever waits for one also looks by itself now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use answerable_core::id::RunId;
use tokio::sync::{Notify, broadcast, mpsc};
use uuid::Uuid;

/// Signals that one watcher may be behind before it misses some.
const BUFFER: usize = 256;

/// What watchers of a run are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// There are new rows.
    Committed,
    /// Some words of a reply that is coming in; never stored.
    Delta(Arc<str>),
}

/// What other processes are told too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// A run has new rows.
    Progress(Uuid),
    /// Something came in for a run.
    Inbox(Uuid),
    /// There may be runs to claim.
    Work,
    /// There may be deliveries to send.
    Deliveries,
    /// A key or a tenant changed; what is cached of keys is stale.
    Keys,
}

/// The hub. Clones share it.
#[derive(Debug, Clone)]
pub struct Signals(Arc<Hub>);

#[derive(Debug)]
struct Hub {
    progress: Mutex<HashMap<Uuid, broadcast::Sender<Progress>>>,
    inboxes: Mutex<HashMap<Uuid, Arc<Notify>>>,
    work: Notify,
    deliveries: Notify,
    keys: broadcast::Sender<()>,
    out: mpsc::UnboundedSender<Signal>,
}

impl Signals {
    /// A hub, and the signals that other processes must be told.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Signal>) {
        let (out, outgoing) = mpsc::unbounded_channel();
        let hub = Hub {
            progress: Mutex::default(),
            inboxes: Mutex::default(),
            work: Notify::new(),
            deliveries: Notify::new(),
            keys: broadcast::channel(4).0,
            out,
        };
        (Self(Arc::new(hub)), outgoing)
    }

    /// Tells this process and the others.
    pub fn announce(&self, signal: Signal) {
        self.tell(signal);
        // Nobody listens for other processes while the server stops; those look by themselves.
        let _ = self.0.out.send(signal);
    }

    /// Tells this process alone: the signal came from another.
    pub fn tell(&self, signal: Signal) {
        match signal {
            Signal::Progress(run) => self.publish(run, Progress::Committed),
            Signal::Inbox(run) => {
                let inboxes = self.0.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(notify) = inboxes.get(&run) {
                    notify.notify_one();
                }
            }
            Signal::Work => self.0.work.notify_one(),
            Signal::Deliveries => self.0.deliveries.notify_one(),
            Signal::Keys => drop(self.0.keys.send(())),
        }
    }

    /// Tells everybody in this process to look: signals may have been missed.
    pub fn tell_all(&self) {
        let runs: Vec<Uuid> =
            self.0.progress.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        runs.into_iter().for_each(|run| self.publish(run, Progress::Committed));
        self.0
            .inboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .for_each(|notify| notify.notify_one());
        self.tell(Signal::Work);
        self.tell(Signal::Deliveries);
        self.tell(Signal::Keys);
    }

    /// Some words of a reply, for watchers in this process.
    pub fn delta(&self, run: RunId, text: &str) {
        self.publish(run.0, Progress::Delta(text.into()));
    }

    fn publish(&self, run: Uuid, progress: Progress) {
        let mut watched = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(&run)
            && sender.send(progress).is_err()
        {
            // The last watcher has gone.
            watched.remove(&run);
        }
    }

    /// Watches a run.
    pub fn watch(&self, run: RunId) -> broadcast::Receiver<Progress> {
        let mut watched = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched.entry(run.0).or_insert_with(|| broadcast::channel(BUFFER).0).subscribe()
    }

    /// The inbox of a run that this process owns; forgotten when the value is dropped.
    pub fn own_inbox(&self, run: RunId) -> OwnedInbox {
        let notify = Arc::new(Notify::new());
        self.0.inboxes.lock().unwrap_or_else(PoisonError::into_inner).insert(run.0, Arc::clone(&notify));
        OwnedInbox { hub: Arc::clone(&self.0), run: run.0, notify }
    }

    /// Waits until there may be runs to claim.
    pub async fn work(&self) {
        self.0.work.notified().await;
    }

    /// Waits until there may be deliveries to send.
    pub async fn deliveries(&self) {
        self.0.deliveries.notified().await;
    }

    /// Hears when keys change.
    pub fn keys(&self) -> broadcast::Receiver<()> {
        self.0.keys.subscribe()
    }
}

/// See [`Signals::own_inbox`].
#[derive(Debug)]
pub struct OwnedInbox {
    hub: Arc<Hub>,
    run: Uuid,
    notify: Arc<Notify>,
}

impl OwnedInbox {
    /// Waits until something came in.
    pub async fn came(&self) {
        self.notify.notified().await;
    }
}

impl Drop for OwnedInbox {
    fn drop(&mut self) {
        let mut inboxes = self.hub.inboxes.lock().unwrap_or_else(PoisonError::into_inner);
        // A newer owner within this process may have taken its place.
        if inboxes.get(&self.run).is_some_and(|notify| Arc::ptr_eq(notify, &self.notify)) {
            inboxes.remove(&self.run);
        }
    }
}
