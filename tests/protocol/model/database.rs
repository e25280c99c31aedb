//! The database's side: what the statements in `crates/store` and `commit_run` do. Each is one step, as a transaction is.

use crate::guards::Guards;
use crate::state::{Call, CommitId, LEASE, Row, Write};

impl Row {
    /// A run that nobody has goes to a server.
    pub(crate) fn claim(&mut self, server: usize) {
        self.release();
        self.owner = Some(server);
        self.epoch += 1;
        self.lease_left = LEASE;
    }

    /// Deaths, as whoever claims the run is told.
    pub(crate) fn deaths(&self) -> u8 {
        self.deaths + u8::from(self.suspect.is_some())
    }

    /// A server left word that it lives.
    pub(crate) fn seen(&mut self, server: usize) {
        if self.suspect == Some(server) {
            self.suspect = None;
        }
        if let Some((_, before)) = self.seen.lapsed.take_if(|(lapsed, _)| *lapsed == server) {
            self.seen.false_death |= self.deaths() > before;
        }
    }

    /// A server's process is gone.
    pub(crate) fn gone(&mut self, server: usize) {
        if self.owner == Some(server) {
            self.owner_gone = true;
            self.left = true;
        }
        self.deaths += u8::from(self.suspect.take_if(|suspect| *suspect == server).is_some());
        self.seen.lapsed.take_if(|(lapsed, _)| *lapsed == server);
    }

    /// A lease that ran out goes to a server.
    pub(crate) fn reclaim(&mut self, guards: Guards, server: usize) {
        if guards.recovery_counter {
            self.seen.false_suspicion |= !self.left;
            // Whoever was not seen again until now has died.
            self.deaths = self.deaths();
            self.suspect = self.owner.filter(|_| !self.owner_gone && guards.seen_again);
            self.seen.lapsed = self.owner.filter(|_| !self.owner_gone).map(|owner| (owner, self.deaths));
            self.deaths += u8::from(self.suspect.is_none());
        }
        self.seen.taken_over = true;
        self.claim(server);
    }

    /// Whether the lease is still the server's; then it is renewed.
    pub(crate) fn renew(&mut self, guards: Guards, server: usize, epoch: u8) -> bool {
        let held = self.owner == Some(server) && self.epoch == epoch;
        if held || (!guards.renew_epoch && self.owner.is_some()) {
            self.lease_left = LEASE;
            return true;
        }
        false
    }

    /// `commit_run`: whether the commit is stored.
    pub(crate) fn commit(&mut self, guards: Guards, id: CommitId, write: Write) -> bool {
        let newest = self.epoch == id.epoch;
        if guards.commit_id
            && self.seq == id.seq + 1
            && self.last_commit == Some(id)
            && (newest || !guards.repeat_epoch)
        {
            self.seen.misled |= !newest && matches!(write, Write::Intent(_));
            return true;
        }
        if (guards.epoch && !newest) || (guards.seq && self.seq != id.seq) {
            return false;
        }
        self.seen.stale_write |= !newest;
        self.seen.late_write |= self.is_ended();
        self.seq = id.seq + 1;
        self.last_commit = Some(id);
        match write {
            Write::Intent(attempt) => self.call = Call::Out(attempt),
            Write::End(end) => {
                self.call = Call::Ended(end);
                self.release();
            }
        }
        true
    }

    /// A server gives the run back.
    pub(crate) fn hand_back(&mut self, guards: Guards, epoch: u8) {
        if self.epoch == epoch || !guards.hand_back_epoch {
            self.release();
        }
    }

    /// Nobody has it.
    pub(crate) fn release(&mut self) {
        self.owner = None;
        self.lease_left = 0;
        self.left = false;
        self.owner_gone = false;
    }
}
