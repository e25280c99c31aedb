//! The database's side: what the statements in `crates/store` and `commit_run` do. Each is one step, as a transaction is.

use crate::guards::Guards;
use crate::state::{Call, CommitId, LEASE, Row, Write};

impl Row {
    /// A run that nobody has goes to a server.
    pub(crate) fn claim(&mut self, server: usize) {
        self.owner = Some(server);
        self.epoch += 1;
        self.lease_left = LEASE;
        self.left = false;
    }

    /// A lease that ran out goes to a server.
    pub(crate) fn reclaim(&mut self, guards: Guards, server: usize) {
        if guards.recovery_counter {
            self.deaths += 1;
            self.seen.false_death |= !self.left;
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
    }
}
