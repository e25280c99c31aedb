//! Who is told, within this process, that something happened: watchers of runs, the scheduler, the owner of a run.
//!
//! A signal is a hint and may be lost; whoever waits for one also looks by itself now and then. The words of a reply that
//! is coming in are live only: `board` has them, `words` says and hears them in this process, `elsewhere` in others.

mod board;
mod elsewhere;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use answerable_core::id::RunId;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use uuid::Uuid;

pub use board::{KEPT, Reply, Words};
pub use elsewhere::{Outgoing, Parcel, RENEW};
pub use words::{Hearing, Speaker};

use elsewhere::Elsewhere;
use words::Boards;

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
    /// A server doesn't know whose words are heard where.
    WhoHears,
}

/// The hub. Clones share it.
#[derive(Debug, Clone)]
pub struct Signals(Arc<Hub>);

#[derive(Debug)]
struct Hub {
    progress: Mutex<HashMap<Uuid, watch::Sender<()>>>,
    inboxes: Mutex<HashMap<Uuid, Arc<Notify>>>,
    work: Notify,
    deliveries: Notify,
    keys: broadcast::Sender<()>,
    out: mpsc::UnboundedSender<Signal>,
    boards: Mutex<Boards>,
    elsewhere: Mutex<Elsewhere>,
    /// There may be something for [`Signals::take_outgoing`].
    to_send: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            boards: Mutex::default(),
            elsewhere: Mutex::default(),
            to_send: Notify::new(),
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
            Signal::Progress(run) => self.progressed(run),
            Signal::Inbox(run) => {
                if let Some(notify) = locked(&self.0.inboxes).get(&run) {
                    notify.notify_one();
                }
            }
            Signal::Work => self.0.work.notify_one(),
            Signal::Deliveries => self.0.deliveries.notify_one(),
            Signal::Keys => drop(self.0.keys.send(())),
            Signal::WhoHears => self.renew_hearing(),
        }
    }

    /// Tells everybody in this process to look: signals may have been missed.
    pub fn tell_all(&self) {
        let runs: Vec<Uuid> = locked(&self.0.progress).keys().copied().collect();
        runs.into_iter().for_each(|run| self.progressed(run));
        locked(&self.0.inboxes).values().for_each(|notify| notify.notify_one());
        self.tell(Signal::Work);
        self.tell(Signal::Deliveries);
        self.tell(Signal::Keys);
        self.tell(Signal::WhoHears);
    }

    fn progressed(&self, run: Uuid) {
        let mut watched = locked(&self.0.progress);
        if let Some(sender) = watched.get(&run)
            && sender.send(()).is_err()
        {
            // The last watcher has gone.
            watched.remove(&run);
        }
    }

    /// Watches a run: whoever has the receiver learns that there are new rows.
    pub fn watch(&self, run: RunId) -> watch::Receiver<()> {
        let mut watched = locked(&self.0.progress);
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched.entry(run.0).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// The inbox of a run that this process owns; forgotten when the value is dropped.
    pub fn own_inbox(&self, run: RunId) -> OwnedInbox {
        let notify = Arc::new(Notify::new());
        locked(&self.0.inboxes).insert(run.0, Arc::clone(&notify));
        OwnedInbox { hub: Arc::clone(&self.0), run: run.0, notify }
    }

    fn owns(&self, run: Uuid) -> bool {
        locked(&self.0.inboxes).contains_key(&run)
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
        let mut inboxes = locked(&self.hub.inboxes);
        // A newer owner within this process may have taken its place.
        if inboxes.get(&self.run).is_some_and(|notify| Arc::ptr_eq(notify, &self.notify)) {
            inboxes.remove(&self.run);
        }
    }
}
