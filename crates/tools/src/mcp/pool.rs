//! The open sessions of this process: one for each server of each tenant, shared by the tenant's runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use answerable_core::id::TenantId;
use answerable_ports::{McpPlace, McpTarget};
use tokio::time::{Instant, interval, timeout_at};

use super::StdioCommand;
use super::ears::Ears;
use super::failure::Failure;
use super::over_http::OverHttp;
use super::over_stdio::OverStdio;
use super::places::{Place, Places};
use super::secrets;
use super::session::{Carrier, Session};
use super::slot::{Key, Slot, Slots, is_idle};
use crate::egress::GuardedClient;

/// Bounds on the sessions of this process.
#[derive(Debug, Clone, Copy)]
pub struct McpLimits {
    /// How long a session is kept that nobody uses.
    pub idle: Duration,
    /// Most sessions that are open at a time.
    pub sessions: usize,
    /// Most of one tenant.
    pub tenant_sessions: usize,
    /// Most processes among them.
    pub processes: usize,
    /// Most of one tenant.
    pub tenant_processes: usize,
    /// Servers that are remembered; beyond these, those without a session are forgotten.
    pub servers: usize,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(300),
            sessions: 512,
            tenant_sessions: 64,
            processes: 64,
            tenant_processes: 8,
            servers: 10_000,
        }
    }
}

/// The sessions.
#[derive(Debug)]
pub(super) struct Pool {
    client: GuardedClient,
    commands: BTreeMap<String, StdioCommand>,
    limits: McpLimits,
    slots: Mutex<Slots>,
    sessions: Places,
    processes: Places,
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
            sessions: Places::new(limits.sessions, limits.tenant_sessions),
            processes: Places::new(limits.processes, limits.tenant_processes),
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
        let asked = Instant::now();
        let mut open = timeout_at(deadline, slot.open.lock())
            .await
            .map_err(|_| Failure::NotSent("the session was not open in time; nothing was sent".into()))?;
        if let Some(known) = open.known(&target.version, asked, &slot.ears) {
            return known;
        }
        let opened = self.opened(target, &slot.ears, deadline).await;
        open.keep(&target.version, &opened, deadline);
        if opened.is_ok() {
            self.sweep_from_now_on();
        }
        opened
    }

    async fn opened(
        &self,
        target: &McpTarget,
        ears: &Ears,
        deadline: Instant,
    ) -> Result<Arc<Session>, Failure> {
        let (carrier, place) = self.carrier(target, ears, deadline).await?;
        Ok(Arc::new(Session::open(carrier, target.version.clone(), place, deadline).await?))
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
        let place = self.place(&self.sessions, target.tenant_id, |_| true, deadline).await?;
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
                let process =
                    self.place(&self.processes, target.tenant_id, Session::is_process, deadline).await?;
                let carrier = OverStdio::start(command, &target.name, mask, ears.clone(), Box::new(process))?;
                Ok((Carrier::Stdio(carrier), Box::new(place)))
            }
        }
    }

    /// A place among the tenant's open sessions, and among all. Where there is none, the one of these that was idle for
    /// longest makes room.
    async fn place(
        &self,
        places: &Places,
        tenant: TenantId,
        counts: impl Fn(&Session) -> bool,
        deadline: Instant,
    ) -> Result<Place, Failure> {
        let make_room = |of: Option<TenantId>| self.close_idlest(of, &counts);
        let place = timeout_at(deadline, places.take(tenant, make_room)).await;
        place.map_err(|_| Failure::NotSent("too many sessions are open here; nothing was sent".into()))
    }

    /// Closes the one that was idle for longest, of a tenant or of all.
    fn close_idlest(&self, of: Option<TenantId>, counts: impl Fn(&Session) -> bool) {
        let slots: Vec<_> = {
            let slots = self.slots();
            let wanted = slots.by_key.iter().filter(|((tenant, _), _)| of.is_none_or(|of| of == *tenant));
            wanted.map(|(_, slot)| Arc::clone(slot)).collect()
        };
        let idle = slots.iter().filter_map(|slot| {
            let open = slot.open.try_lock().ok()?;
            let used = open.idle().filter(|session| counts(session))?.used();
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
