//! Transactions that know whose they are. What they announce is heard only after they are committed.

use answerable_core::id::TenantId;
use answerable_faults::{self as faults, Point};
use answerable_ports::{Share, Signal, Signals, StoreError};
use sqlx::{Postgres, Transaction};

use crate::audit::Acts;
use crate::conn::Conn;
use crate::error::store_error;
use crate::seal::Sealer;

/// Who takes connections: a tenant's runs beside its requests, so that no number of these holds up what it has running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Taker {
    Requests(TenantId),
    Runs(TenantId),
}

impl Taker {
    pub(crate) fn tenant(self) -> TenantId {
        match self {
            Self::Requests(tenant) | Self::Runs(tenant) => tenant,
        }
    }
}

/// A transaction of one tenant: it sees and writes that tenant's rows alone. Dropped without
/// [`commit`](TenantTx::commit), it changes nothing.
pub struct TenantTx {
    pub(crate) tx: Transaction<'static, Postgres>,
    /// Its place among the connections.
    pub(crate) _share: Share<Taker>,
    pub(crate) prepared: bool,
    pub(crate) tenant_id: TenantId,
    pub(crate) sealer: Sealer,
    pub(crate) signals: Vec<Signal>,
    pub(crate) hub: Signals,
    pub(crate) acts: Acts,
}

impl TenantTx {
    /// Whose it is.
    pub fn tenant_id(&self) -> TenantId {
        self.tenant_id
    }

    /// The tenant's UUID, for queries: every one of them names it.
    pub(crate) fn tenant(&self) -> uuid::Uuid {
        self.tenant_id.0
    }

    pub(crate) fn conn(&mut self) -> Conn<'_> {
        Conn { raw: &mut self.tx, prepared: self.prepared }
    }

    /// Will be announced with the commit.
    pub fn announce(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    /// Goes on as the role that works across tenants.
    pub(crate) async fn become_system(&mut self) -> Result<(), StoreError> {
        sqlx::query("SET LOCAL ROLE answerable_system").execute(self.conn()).await.map_err(store_error)?;
        Ok(())
    }

    /// Makes it true, and writes down whose doing it is.
    ///
    /// # Errors
    /// The database is away; whether the transaction was committed is then unknown.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        self.acts_write().await?;
        faults::before(Point::Write);
        self.tx.commit().await.map_err(store_error)?;
        faults::after(Point::Write);
        self.signals.into_iter().for_each(|signal| self.hub.announce(signal));
        Ok(())
    }
}

/// A transaction that crosses tenants: keys, claims, the operator's pages.
pub struct SystemTx {
    pub(crate) tx: Transaction<'static, Postgres>,
    pub(crate) prepared: bool,
    pub(crate) sealer: Sealer,
    pub(crate) signals: Vec<Signal>,
    pub(crate) hub: Signals,
    pub(crate) acts: Acts,
}

impl SystemTx {
    pub(crate) fn conn(&mut self) -> Conn<'_> {
        Conn { raw: &mut self.tx, prepared: self.prepared }
    }

    /// Will be announced with the commit.
    pub fn announce(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    /// Makes it true.
    ///
    /// # Errors
    /// The database is away; whether the transaction was committed is then unknown.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        self.acts_write().await?;
        self.tx.commit().await.map_err(store_error)?;
        self.signals.into_iter().for_each(|signal| self.hub.announce(signal));
        Ok(())
    }
}
