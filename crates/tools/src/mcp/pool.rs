//! The open sessions of this process: one for each server of each tenant, shared by the tenant's runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_ports::{McpPlace, McpTarget};
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, interval, timeout_at};

use super::StdioCommand;
use super::ears::Ears;
use super::failure::Failure;
use super::over_http::OverHttp;
use super::over_stdio::OverStdio;
use super::secrets;
use super::session::{Carrier, Session};
use crate::egress::GuardedClient;

/// Bounds on the sessions of this process.
#[derive(Debug, Clone, Copy)]
pub struct McpLimits {
    /// How long a session is kept that nobody uses.
    pub idle: Duration,
    /// Most sessions that are open at a time.
    pub sessions: usize,
    /// Most processes among them.
    pub processes: usize,
    /// Servers that are remembered; beyond these, those without a session are forgotten.
    pub servers: usize,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(300), sessions: 512, processes: 64, servers: 10_000 }
    }
}

type Key = (TenantId, String);

/// What is known of one server of one tenant.
#[derive(Debug, Default)]
struct Slot {
    ears: Ears,
    /// Held while the session is opened, so that it is opened once.
    open: AsyncMutex<Option<Arc<Session>>>,
}

#[derive(Debug, Default)]
struct Slots {
    by_key: HashMap<Key, Arc<Slot>>,
    /// What slots that were forgotten had counted up to: those made after them begin there.
    floor: u64,
}

/// The sessions.
#[derive(Debug)]
pub(super) struct Pool {
    client: GuardedClient,
    commands: BTreeMap<String, StdioCommand>,
    limits: McpLimits,
    slots: Mutex<Slots>,
    sessions: Arc<Semaphore>,
    processes: Arc<Semaphore>,
    is_swept: AtomicBool,
}

impl Pool {
    /// No sessions yet.
    pub(super) fn new(
        client: GuardedClient,
        commands: BTreeMap<String, StdioCommand>,
        limits: McpLimits,
    ) -> Self {
        Self {
            client,
            commands,
            limits,
            slots: Mutex::default(),
            sessions: Arc::new(Semaphore::new(limits.sessions)),
            processes: Arc::new(Semaphore::new(limits.processes)),
            is_swept: AtomicBool::new(false),
        }
    }

    /// The session with a server, opened if need be.
    pub(super) async fn session(
        self: &Arc<Self>,
        target: &McpTarget,
        deadline: Instant,
    ) -> Result<Arc<Session>, Failure> {
        let slot = self.slot(&(target.tenant_id, target.name.clone()));
        let mut open = timeout_at(deadline, slot.open.lock())
            .await
            .map_err(|_| Failure::NotSent("the session was not open in time; nothing was sent".into()))?;
        if let Some(session) = &*open {
            if session.version() == target.version && !session.is_over() {
                session.touch();
                return Ok(Arc::clone(session));
            }
            // Where it was lost, that was noted then.
            if !session.is_lost() {
                slot.ears.note_change();
            }
            *open = None;
        }
        let (carrier, place) = self.carrier(target, &slot.ears, deadline).await?;
        let session = Arc::new(Session::open(carrier, target.version.clone(), place, deadline).await?);
        *open = Some(Arc::clone(&session));
        self.sweep_from_now_on();
        Ok(session)
    }

    /// The server knows this session no more.
    pub(super) fn lose(&self, target: &McpTarget, lost: &Session) {
        if lost.lose() {
            self.slot(&(target.tenant_id, target.name.clone())).ears.note_change();
        }
    }

    /// How often the server's list of tools may have become another.
    pub(super) fn changes(&self, tenant_id: TenantId, server: &str) -> u64 {
        let slots = self.slots();
        let slot = slots.by_key.get(&(tenant_id, server.to_owned()));
        slots.floor + slot.map_or(0, |slot| slot.ears.changes())
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, key: &Key) -> Arc<Slot> {
        let mut slots = self.slots();
        if slots.by_key.len() >= self.limits.servers && !slots.by_key.contains_key(key) {
            slots.forget_unused();
        }
        Arc::clone(slots.by_key.entry(key.clone()).or_default())
    }

    async fn carrier(
        &self,
        target: &McpTarget,
        ears: &Ears,
        deadline: Instant,
    ) -> Result<(Carrier, Box<dyn Send + Sync>), Failure> {
        let place = self.place(&self.sessions, |_| true, deadline).await?;
        let mask = secrets::mask(target, &self.commands);
        match &target.place {
            McpPlace::Url { url, headers } => {
                let headers = secrets::headers(headers)?;
                let carrier = OverHttp::new(self.client.clone(), url.clone(), headers, mask, ears.clone());
                Ok((Carrier::Http(carrier), Box::new(place)))
            }
            McpPlace::Stdio { command } => {
                let Some(command) = self.commands.get(command) else {
                    let why = "the operator's configuration names no such command; nothing was sent";
                    return Err(Failure::Forbidden(why.into()));
                };
                // It counts until its process is gone, not only until nobody uses it.
                let process = self.place(&self.processes, Session::is_process, deadline).await?;
                let carrier = OverStdio::start(command, &target.name, mask, ears.clone(), Box::new(process))?;
                Ok((Carrier::Stdio(carrier), Box::new(place)))
            }
        }
    }

    /// A place among the open sessions; where there is none, the one that was idle for longest makes room.
    async fn place(
        &self,
        places: &Arc<Semaphore>,
        counts: impl Fn(&Session) -> bool,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(place);
        }
        self.close_idlest(counts);
        match timeout_at(deadline, Arc::clone(places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Failure::NotSent("too many sessions are open here; nothing was sent".into())),
        }
    }

    fn close_idlest(&self, counts: impl Fn(&Session) -> bool) {
        let slots: Vec<_> = self.slots().by_key.values().cloned().collect();
        let idle = slots.iter().filter_map(|slot| {
            let open = slot.open.try_lock().ok()?;
            let used = open.as_ref().filter(|session| is_idle(session) && counts(session))?.used();
            Some((used, slot))
        });
        if let Some((_, slot)) = idle.min_by_key(|(used, _)| *used) {
            slot.close_if(is_idle);
        }
    }

    fn close_idle(&self) {
        let slots: Vec<_> = self.slots().by_key.values().cloned().collect();
        slots.iter().for_each(|slot| {
            slot.close_if(|session| is_idle(session) && session.used().elapsed() >= self.limits.idle)
        });
    }

    /// Begins to close what is idle, once.
    fn sweep_from_now_on(self: &Arc<Self>) {
        if self.is_swept.swap(true, Ordering::AcqRel) {
            return;
        }
        let (pool, mut ticks) =
            (Arc::downgrade(self), interval((self.limits.idle / 4).max(Duration::from_millis(1))));
        tokio::spawn(async move {
            loop {
                ticks.tick().await;
                let Some(pool) = Weak::upgrade(&pool) else { return };
                pool.close_idle();
            }
        });
    }
}

/// Nobody has it but its slot.
fn is_idle(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) == 1
}

impl Slot {
    fn close_if(&self, condition: impl Fn(&Arc<Session>) -> bool) {
        let Ok(mut open) = self.open.try_lock() else { return };
        if open.take_if(|session| condition(session)).is_some() {
            // Without a session no change is heard of.
            self.ears.note_change();
        }
    }
}

impl Slots {
    /// Lets go of what nobody uses. Whoever asks for its count later finds a higher one.
    fn forget_unused(&mut self) {
        let mut highest = 0;
        self.by_key.retain(|_, slot| {
            let is_unused =
                Arc::strong_count(slot) == 1 && slot.open.try_lock().is_ok_and(|open| open.is_none());
            if is_unused {
                highest = highest.max(slot.ears.changes() + 1);
            }
            !is_unused
        });
        self.floor += highest;
    }
}
