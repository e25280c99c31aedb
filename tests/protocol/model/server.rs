//! The server's side: what `crates/engine` does with a run that it has.

use crate::protocol::Protocol;
use crate::scenario::Kind;
use crate::state::{Call, CommitId, End, FENCE, Message, Stage, Task, World, Write};

impl Task {
    fn id(&self) -> CommitId {
        CommitId { epoch: self.epoch, seq: self.seq }
    }

    /// What it has sent to the database and waits for.
    pub(crate) fn request(&self, server: usize, run: usize) -> Message {
        match self.stage {
            Stage::Committing(write) => Message::Commit { server, run, id: self.id(), write },
            _ => Message::HandBack { server, run, epoch: self.epoch },
        }
    }
}

impl Protocol {
    /// A claimed run is loaded, which fails if it is another's by now, and taken up.
    pub(crate) fn take_up(&self, world: &mut World, at: (usize, usize), epoch: u8, deaths: u8, age: u8) {
        let (server, run) = at;
        if world.rows[run].epoch != epoch || world.rows[run].owner != Some(server) {
            return;
        }
        let state = &mut world.servers[server];
        if state.is_idle() {
            state.fence_left = FENCE;
        }
        if self.guards.claim_age {
            if age >= FENCE {
                // It is given back. If that doesn't arrive, the database is out of reach.
                world.rows[run].left = true;
                world.net.insert(Message::HandBack { server, run, epoch });
                return;
            }
            state.fence_left = state.fence_left.min(FENCE - age);
        }
        let stage = self.begin(world.rows[run].call, deaths);
        let task = Task { epoch, seq: world.rows[run].seq, stage, slept: false };
        world.servers[server].tasks[run] = Some(task);
        if matches!(stage, Stage::Committing(_)) {
            world.net.insert(task.request(server, run));
        }
    }

    /// What was out when the run was taken up is unclear before anything else.
    fn begin(&self, call: Call, deaths: u8) -> Stage {
        if deaths > self.bounds.deaths {
            return Stage::Committing(Write::End(End::CrashLoop));
        }
        match (call, self.bounds.kind) {
            (Call::Due, _) => Stage::Thinking,
            (Call::Out(attempt), Kind::LookedUp) => Stage::LookingUp(attempt),
            (Call::Out(attempt), Kind::Idempotent) => Stage::Committing(self.again(attempt)),
            (Call::Out(_), Kind::Plain) => Stage::Committing(Write::End(End::Uncertain)),
            (Call::Ended(end), _) => Stage::Committing(Write::End(end)),
        }
    }

    fn again(&self, attempt: u8) -> Write {
        if attempt < self.bounds.attempts { Write::Intent(attempt + 1) } else { Write::End(End::Uncertain) }
    }

    /// Sends a commit or a hand-back to the database.
    pub(crate) fn ask(&self, world: &mut World, at: (usize, usize), stage: Stage) {
        let (server, run) = at;
        if let Some(task) = &mut world.servers[server].tasks[run] {
            task.stage = stage;
            world.net.insert(task.request(server, run));
        }
    }

    /// The database's word on a commit.
    pub(crate) fn answered(&self, world: &mut World, at: (usize, usize), id: CommitId, stored: bool) {
        let (server, run) = at;
        let slot = &mut world.servers[server].tasks[run];
        let Some(task) = slot else { return };
        let Stage::Committing(write) = task.stage else { return };
        if task.id() != id {
            return;
        }
        match write {
            Write::Intent(attempt) if stored => {
                *task = Task { seq: task.seq + 1, stage: Stage::ToSend(attempt), ..*task };
            }
            _ => *slot = None,
        }
    }

    /// The request leaves; the world takes note.
    pub(crate) fn send(&self, world: &mut World, at: (usize, usize)) {
        let (server, run) = at;
        let Some(task) = &mut world.servers[server].tasks[run] else { return };
        let seen = &mut world.rows[run].seen;
        task.stage = match task.stage {
            Stage::ToSend(attempt) => Stage::Open(attempt),
            Stage::GivenUp { .. } => Stage::GivenUp { sent: true },
            _ => {
                seen.unintended = true;
                Stage::Open(1)
            }
        };
        seen.sent = (seen.sent + 1).min(2);
    }

    /// The far side answers. If the run was given up, that is written to the ledger alone.
    pub(crate) fn came(&self, world: &mut World, at: (usize, usize)) {
        let (server, run) = at;
        let slot = &mut world.servers[server].tasks[run];
        if slot.is_some_and(|task| matches!(task.stage, Stage::GivenUp { .. })) {
            *slot = None;
        } else {
            self.ask(world, at, Stage::Committing(Write::End(End::Finished)));
        }
    }

    /// The far side says, by what has reached it, whether the call was done.
    pub(crate) fn told(&self, world: &mut World, at: (usize, usize)) {
        let (server, run) = at;
        let done = world.rows[run].seen.sent > 0;
        let Some(Task { stage: Stage::LookingUp(attempt), .. }) = world.servers[server].tasks[run] else {
            return;
        };
        let write = if done { Write::End(End::Finished) } else { self.again(attempt) };
        self.ask(world, at, Stage::Committing(write));
    }

    /// All leases are renewed at once; those that are another's are lost, and their work stops.
    pub(crate) fn renew(&self, world: &mut World, server: usize, heard: bool) {
        world.rows.iter_mut().for_each(|row| row.seen(server));
        for (row, slot) in world.rows.iter_mut().zip(&mut world.servers[server].tasks) {
            let Some(task) = slot else { continue };
            let given_up = matches!(task.stage, Stage::GivenUp { .. });
            if given_up && self.guards.let_go {
                continue;
            }
            let held = row.renew(self.guards, server, task.epoch);
            row.seen.kept_idle |= held && given_up;
            if heard && held {
                task.slept = false;
                row.left &= row.owner != Some(server) || given_up;
            } else if heard {
                self.give_up(slot);
            }
        }
        if heard {
            world.servers[server].fence_left = FENCE;
        }
    }

    /// A server could not renew: it gives up its runs.
    pub(crate) fn fence(&self, world: &mut World, server: usize) {
        world.rows.iter_mut().filter(|row| row.owner == Some(server)).for_each(|row| row.left = true);
        world.servers[server].tasks.iter_mut().for_each(|slot| self.give_up(slot));
        world.servers[server].fence_left = FENCE;
        // Its claims fare no better than its renewals.
        world.servers[server].unsure = self.guards.unheard_claims;
    }

    /// All work on a run stops, but for a write that nobody will send again.
    fn give_up(&self, slot: &mut Option<Task>) {
        let Some(task) = slot else { return };
        let sent = match task.stage {
            Stage::Open(_) => true,
            Stage::GivenUp { sent } => sent,
            Stage::ToSend(_) if !self.guards.drop_unsent => false,
            _ => return *slot = None,
        };
        if self.bounds.kind == Kind::Idempotent {
            *slot = None;
        } else {
            task.stage = Stage::GivenUp { sent };
        }
    }
}
