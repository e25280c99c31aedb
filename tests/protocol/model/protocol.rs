//! The model: what follows each action.

use stateright::{Model, Property};

use crate::action::{Action, OLDEST};
use crate::guards::Guards;
use crate::properties;
use crate::scenario::Bounds;
use crate::state::{FENCE, Message, Mode, Row, Server, Stage, Task, World, Write};

/// The protocol with some of its guards, within bounds.
#[derive(Debug, Clone)]
pub(crate) struct Protocol {
    pub(crate) guards: Guards,
    pub(crate) bounds: Bounds,
    /// Names of the properties that are looked at.
    pub(crate) watched: Vec<&'static str>,
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            rows: vec![Row::new(); self.bounds.runs],
            servers: vec![Server::fresh(self.bounds.runs); self.bounds.servers],
            net: Default::default(),
            faults: self.bounds.faults,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        self.apply(&mut world, action);
        self.forget(&mut world);
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all().into_iter().filter(|property| self.watched.contains(&property.name)).collect()
    }
}

impl Protocol {
    /// Drops what can make no difference any more, so that fewer states are told apart.
    fn forget(&self, world: &mut World) {
        for server in world.servers.iter_mut().filter(|server| server.is_idle()) {
            server.fence_left = FENCE;
        }
        // Nobody will be told of deaths any more.
        for row in world.rows.iter_mut().filter(|row| row.is_ended() || row.epoch >= self.bounds.epochs) {
            (row.deaths, row.suspect, row.seen.lapsed) = (0, None, None);
        }
        for (at, server) in world.servers.iter_mut().enumerate().filter(|(_, server)| server.unsure) {
            let mut rows = world.rows.iter().enumerate();
            server.unsure = rows.any(|(run, row)| row.owner == Some(at) && !server.holds(run));
        }
        let (rows, servers, guards) = (&world.rows, &world.servers, self.guards);
        let awaited = |server: usize, run: usize, epoch: u8| {
            servers[server].tasks[run].is_some_and(|task: Task| task.epoch == epoch)
        };
        world.net.retain(|message| match *message {
            Message::Commit { server, run, id, .. } => {
                let refused =
                    (guards.epoch && id.epoch < rows[run].epoch) || (guards.seq && id.seq < rows[run].seq);
                awaited(server, run, id.epoch) || !refused
            }
            Message::HandBack { server, run, epoch } => {
                let refused = guards.hand_back_epoch && epoch < rows[run].epoch;
                awaited(server, run, epoch) || !refused
            }
            Message::Answer { server, run, id, .. } => awaited(server, run, id.epoch),
            Message::HandedBack { server, run, epoch } => awaited(server, run, epoch),
            Message::Claimed { run, epoch, .. } => epoch == rows[run].epoch,
        });
    }

    fn apply(&self, world: &mut World, action: Action) {
        match action {
            Action::Tick => tick(world),
            Action::Claim { server, run } | Action::Reclaim { server, run } => self.take(world, server, run),
            Action::Look { server, run } => world.servers[server].found = Some(run),
            Action::Take { server } => self.take_found(world, server),
            Action::Arrive(message) => self.arrive(world, message),
            Action::Lose(message) => self.lose(world, message),
            Action::Renew { server } => self.renew(world, server, true),
            Action::RenewUnheard { server } => self.renew(world, server, false),
            Action::PutBack { server } => put_back(world, server),
            Action::Fence { server } => self.fence(world, server),
            Action::Decide { server, run } => {
                self.ask(world, (server, run), Stage::Committing(Write::Intent(1)));
            }
            Action::Retry { server, run } => {
                let task = world.servers[server].tasks[run];
                world.net.extend(task.map(|task| task.request(server, run)));
            }
            Action::Send { server, run } => self.send(world, (server, run)),
            Action::FarSideAnswers { server, run } => self.came(world, (server, run)),
            Action::FarSideTells { server, run } => self.told(world, (server, run)),
            Action::HandBack { server, run } => self.ask(world, (server, run), Stage::HandingBack),
            Action::ClockStep => {
                world.faults.clock_steps -= 1;
                world.rows.iter_mut().for_each(|row| row.lease_left = 0);
            }
            _ => self.of_a_process(world, action),
        }
    }

    fn of_a_process(&self, world: &mut World, action: Action) {
        match action {
            Action::Crash { server } => self.crash(world, server),
            Action::Stop { server } => {
                world.faults.stops -= 1;
                world.servers[server].mode = Mode::Stopped;
                world.rows.iter_mut().filter(|row| row.owner == Some(server)).for_each(|row| row.left = true);
            }
            Action::Resume { server } => {
                world.servers[server].mode = Mode::Up;
                world.servers[server].tasks.iter_mut().flatten().for_each(|task| task.slept = true);
            }
            Action::Drain { server } => {
                world.faults.drains -= 1;
                world.servers[server].draining = true;
            }
            Action::Restart { server } => world.servers[server] = Server::fresh(self.bounds.runs),
            Action::Exit { server } => {
                world.servers[server].mode = Mode::Down;
                world.rows.iter_mut().for_each(|row| row.gone(server));
            }
            _ => {}
        }
    }

    fn crash(&self, world: &mut World, server: usize) {
        let mut killed = false;
        for (row, task) in world.rows.iter_mut().zip(&world.servers[server].tasks) {
            if self.bounds.deadly && task.is_some_and(|task| matches!(task.stage, Stage::Open(_))) {
                row.seen.kills += 1;
                killed = true;
            }
        }
        if !killed {
            world.faults.crashes -= 1;
        }
        world.rows.iter_mut().for_each(|row| row.gone(server));
        world.servers[server] = Server { mode: Mode::Down, ..Server::fresh(self.bounds.runs) };
        // Nobody is there to hear them.
        world.net.retain(|message| message.receiver() != Some(server));
    }

    fn take(&self, world: &mut World, server: usize, run: usize) {
        let row = &mut world.rows[run];
        if row.owner.is_some() {
            row.reclaim(self.guards, server)
        } else {
            row.claim(server)
        }
        let (epoch, deaths) = (row.epoch, row.deaths());
        world.net.insert(Message::Claimed { server, run, epoch, deaths, age: 0 });
    }

    fn take_found(&self, world: &mut World, server: usize) {
        let Some(run) = world.servers[server].found.take() else { return };
        let row = &world.rows[run];
        let free = row.owner.is_none() || row.lease_left == 0;
        if (free || !self.guards.second_look) && !row.is_ended() && row.epoch < self.bounds.epochs {
            self.take(world, server, run);
        }
    }

    fn arrive(&self, world: &mut World, message: Message) {
        world.net.remove(&message);
        match message {
            Message::Commit { server, run, id, write } => {
                let stored = world.rows[run].commit(self.guards, id, write);
                world.net.insert(Message::Answer { server, run, id, stored });
            }
            Message::HandBack { server, run, epoch } => {
                world.rows[run].hand_back(self.guards, epoch);
                world.net.insert(Message::HandedBack { server, run, epoch });
            }
            Message::Answer { server, run, id, stored } => self.answered(world, (server, run), id, stored),
            Message::HandedBack { server, run, epoch } => {
                let slot = &mut world.servers[server].tasks[run];
                if slot.is_some_and(|task| task.epoch == epoch && task.stage == Stage::HandingBack) {
                    *slot = None;
                }
            }
            Message::Claimed { server, run, epoch, deaths, age } => {
                self.take_up(world, (server, run), epoch, deaths, age);
            }
        }
    }

    fn lose(&self, world: &mut World, message: Message) {
        world.net.remove(&message);
        if let Message::Claimed { server, run, epoch, .. } = message
            && self.guards.unheard_claims
            && world.rows[run].owner == Some(server)
            && world.rows[run].epoch == epoch
        {
            world.servers[server].unsure = true;
        }
    }
}

/// What it works on stays, and so does what others have.
fn put_back(world: &mut World, server: usize) {
    let state = &mut world.servers[server];
    state.unsure = false;
    for (run, row) in world.rows.iter_mut().enumerate() {
        if row.owner == Some(server) && !state.holds(run) {
            row.release();
        }
    }
}

fn tick(world: &mut World) {
    for (run, row) in world.rows.iter_mut().enumerate() {
        let Some(owner) = row.owner else { continue };
        row.lease_left = row.lease_left.saturating_sub(1);
        // It would have put the run back if it had reached the database.
        let state = &world.servers[owner];
        row.left |= row.lease_left == 0 && state.unsure && !state.holds(run);
    }
    for server in &mut world.servers {
        server.fence_left = server.fence_left.saturating_sub(1);
    }
    let older = |message: Message| match message {
        Message::Claimed { server, run, epoch, deaths, age } => {
            Message::Claimed { server, run, epoch, deaths, age: (age + 1).min(OLDEST) }
        }
        other => other,
    };
    world.net = std::mem::take(&mut world.net).into_iter().map(older).collect();
    for message in &world.net {
        // Its server could not be reached for the whole span.
        if let Message::Claimed { server, run, epoch, .. } = *message {
            let row = &mut world.rows[run];
            row.left |= row.owner == Some(server) && row.epoch == epoch && row.lease_left == 0;
        }
    }
}
