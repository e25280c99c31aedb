//! What may happen next.

use crate::protocol::Protocol;
use crate::state::{Call, LEASE, Message, Mode, Row, Stage, Task, World};

/// One step of anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A third of a lease goes by, for everybody.
    Tick,
    /// A server claims a run that nobody has.
    Claim { server: usize, run: usize },
    /// A server takes over a run whose lease ran out.
    Reclaim { server: usize, run: usize },
    /// A server looks for a run; without its guard taking it is another step.
    Look { server: usize, run: usize },
    /// A server takes what it found.
    Take { server: usize },
    /// A message arrives.
    Arrive(Message),
    /// An answer is lost. (A request that is lost is one that never arrives.)
    Lose(Message),
    /// A server renews its leases, and hears which it still has.
    Renew { server: usize },
    /// The same, but the answer is lost.
    RenewUnheard { server: usize },
    /// A server gives back what it has and doesn't know of, after a claim that had no answer.
    PutBack { server: usize },
    /// A server gives up its runs because it could not renew.
    Fence { server: usize },
    /// The model has answered: the server commits that the call will be sent.
    Decide { server: usize, run: usize },
    /// A commit or a hand-back is sent again because no answer came.
    Retry { server: usize, run: usize },
    /// The request leaves.
    Send { server: usize, run: usize },
    /// The far side answers the request; the server commits that.
    FarSideAnswers { server: usize, run: usize },
    /// The far side says whether the call was done.
    FarSideTells { server: usize, run: usize },
    /// The process is gone.
    Crash { server: usize },
    /// Another process in its place.
    Restart { server: usize },
    /// The process stands still.
    Stop { server: usize },
    /// It goes on.
    Resume { server: usize },
    /// The process is asked to leave.
    Drain { server: usize },
    /// It gives a run back.
    HandBack { server: usize, run: usize },
    /// It has given back all its runs and leaves.
    Exit { server: usize },
    /// The database's clock jumps beyond every lease.
    ClockStep,
}

impl Protocol {
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        self.of_time(world, actions);
        of_net(self, world, actions);
        for server in 0..world.servers.len() {
            self.of_process(world, server, actions);
            for run in 0..world.rows.len() {
                self.of_queue(world, server, run, actions);
                if let Some(task) = world.servers[server].tasks[run].filter(|_| world.servers[server].is_up())
                {
                    self.of_task(world, (server, run), task, actions);
                }
            }
        }
    }

    fn of_time(&self, world: &World, actions: &mut Vec<Action>) {
        // Who is awake gives up in time: that is what its timer is for.
        let must_fence = |server: &crate::state::Server| {
            self.guards.self_fence && server.is_up() && !server.is_idle() && server.fence_left == 0
        };
        if !world.servers.iter().any(must_fence) {
            actions.push(Action::Tick);
        }
        if world.faults.clock_steps > 0 {
            actions.push(Action::ClockStep);
        }
    }

    fn of_process(&self, world: &World, server: usize, actions: &mut Vec<Action>) {
        let state = &world.servers[server];
        match state.mode {
            Mode::Down => return actions.push(Action::Restart { server }),
            Mode::Stopped => return actions.push(Action::Resume { server }),
            Mode::Up => {}
        }
        // Without leases it still leaves word that it lives.
        if !state.is_idle() || world.rows.iter().any(|row| waits_for_word(row, server)) {
            actions.push(Action::Renew { server });
        }
        if !state.is_idle() {
            if self.bounds.losses {
                actions.push(Action::RenewUnheard { server });
            }
            if self.guards.self_fence && state.fence_left == 0 {
                actions.push(Action::Fence { server });
            }
        }
        if state.unsure && !is_claiming(world, server) {
            actions.push(Action::PutBack { server });
        }
        if state.found.is_some() {
            actions.push(Action::Take { server });
        }
        if world.faults.crashes > 0 {
            actions.push(Action::Crash { server });
        }
        if world.faults.stops > 0 {
            actions.push(Action::Stop { server });
        }
        if world.faults.drains > 0 && !state.draining {
            actions.push(Action::Drain { server });
        }
        if state.draining && state.is_idle() && !is_claiming(world, server) {
            actions.push(Action::Exit { server });
        }
    }

    fn of_queue(&self, world: &World, server: usize, run: usize, actions: &mut Vec<Action>) {
        let (state, row) = (&world.servers[server], &world.rows[run]);
        let able = state.is_up() && !state.draining && state.tasks[run].is_none();
        // A server asks for one claim at a time.
        let free = able && state.found.is_none() && !is_claiming(world, server);
        if !free || row.is_ended() || row.epoch >= self.bounds.epochs {
            return;
        }
        let (due, expired) = (self.is_due(world, run), row.owner.is_some() && row.lease_left == 0);
        if due && self.guards.claim_lock {
            actions.push(Action::Claim { server, run });
        } else if expired && self.guards.second_look {
            // Row lock and second look make looking and taking one.
            actions.push(Action::Reclaim { server, run });
        } else if due || expired {
            actions.push(Action::Look { server, run });
        }
    }

    fn of_task(&self, world: &World, at: (usize, usize), task: Task, actions: &mut Vec<Action>) {
        let (server, run) = at;
        let state = &world.servers[server];
        let in_time = !self.guards.look_before_send || state.fence_left > 0;
        match task.stage {
            Stage::Thinking => {
                actions.push(Action::Decide { server, run });
                if !self.guards.intent_first {
                    actions.push(Action::Send { server, run });
                }
                if state.draining {
                    actions.push(Action::HandBack { server, run });
                }
            }
            Stage::LookingUp(_) => actions.push(Action::FarSideTells { server, run }),
            Stage::Committing(_) | Stage::HandingBack => {
                if !world.net.contains(&task.request(server, run)) {
                    actions.push(Action::Retry { server, run });
                }
            }
            Stage::ToSend(_) if in_time => actions.push(Action::Send { server, run }),
            Stage::ToSend(_) => {}
            Stage::GivenUp { sent: true } => actions.push(Action::FarSideAnswers { server, run }),
            Stage::GivenUp { sent: false } => actions.push(Action::Send { server, run }),
            Stage::Open(_) if self.bounds.deadly => actions.push(Action::Crash { server }),
            Stage::Open(_) => actions.push(Action::FarSideAnswers { server, run }),
        }
    }

    /// Nobody has the run, and its tenant has a place for it.
    pub(crate) fn is_due(&self, world: &World, run: usize) -> bool {
        let places = world.rows.iter().filter(|row| row.owner.is_some()).count();
        let row = &world.rows[run];
        row.owner.is_none() && !matches!(row.call, Call::Ended(_)) && places < self.bounds.places
    }
}

fn of_net(protocol: &Protocol, world: &World, actions: &mut Vec<Action>) {
    for message in &world.net {
        match message.receiver() {
            Some(server) if !world.servers[server].is_up() => {}
            _ => actions.push(Action::Arrive(*message)),
        }
        if protocol.bounds.losses && message.receiver().is_some() {
            actions.push(Action::Lose(*message));
        }
    }
}

fn waits_for_word(row: &Row, server: usize) -> bool {
    row.suspect == Some(server) || row.seen.lapsed.is_some_and(|(lapsed, _)| lapsed == server)
}

fn is_claiming(world: &World, by: usize) -> bool {
    world.net.iter().any(|message| matches!(message, Message::Claimed { server, .. } if *server == by))
}

/// An age beyond this is as good as this.
pub(crate) const OLDEST: u8 = LEASE;
