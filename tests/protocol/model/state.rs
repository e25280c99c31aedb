//! What is true at a moment: in the database, in each server, and on the way between them. There is no absolute time;
//! what runs out is counted down, so that the same situation at another hour is the same state.

use std::collections::BTreeSet;

/// A lease's span in ticks: a tick is a third of it.
pub(crate) const LEASE: u8 = 3;
/// Ticks after which a server that could not renew gives up its runs.
pub(crate) const FENCE: u8 = 2;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum End {
    Finished,
    Uncertain,
    CrashLoop,
}

/// The run's one call, as it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    /// The model has not asked for it yet.
    Due,
    /// It is written down that this attempt will be sent.
    Out(u8),
    /// The run is over.
    Ended(End),
}

/// What a commit says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Write {
    Intent(u8),
    End(End),
}

/// Identity of a commit: a server makes one for each place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CommitId {
    pub(crate) epoch: u8,
    pub(crate) seq: u8,
}

/// What the world saw of a run; nobody in the protocol reads this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Seen {
    /// Requests that left.
    pub(crate) sent: u8,
    /// One left that no committed intent spoke of.
    pub(crate) unintended: bool,
    /// A write with an old epoch was accepted.
    pub(crate) stale_write: bool,
    /// A write after the end was accepted.
    pub(crate) late_write: bool,
    /// A server heard that its intent is stored when the run was another's already.
    pub(crate) misled: bool,
    /// Its lease was renewed by a server that had given it up.
    pub(crate) kept_idle: bool,
    /// A server was taken for dead that had not died, slept or been out of reach.
    pub(crate) false_suspicion: bool,
    /// Who let its lease run out last, if that process lives, and the deaths before.
    pub(crate) lapsed: Option<(usize, u8)>,
    /// That server is there again, and it counts as a death still.
    pub(crate) false_death: bool,
    /// Servers that the call killed.
    pub(crate) kills: u8,
    /// It was taken over.
    pub(crate) taken_over: bool,
}

/// A run in the database: its state row and its place in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) call: Call,
    pub(crate) epoch: u8,
    pub(crate) seq: u8,
    pub(crate) last_commit: Option<CommitId>,
    pub(crate) owner: Option<usize>,
    /// Ticks until the lease ends by the database's clock.
    pub(crate) lease_left: u8,
    /// Deaths that are sure.
    pub(crate) deaths: u8,
    /// Who let its lease run out last: one more death, unless it is seen again.
    pub(crate) suspect: Option<usize>,
    /// The owner's process is gone, and nobody will see it again.
    pub(crate) owner_gone: bool,
    /// The owner of the present lease crashed, slept, gave up or was out of reach; for the properties alone.
    pub(crate) left: bool,
    pub(crate) seen: Seen,
}

impl Row {
    pub(crate) fn new() -> Self {
        Self {
            call: Call::Due,
            epoch: 0,
            seq: 0,
            last_commit: None,
            owner: None,
            lease_left: 0,
            deaths: 0,
            suspect: None,
            owner_gone: false,
            left: false,
            seen: Seen::default(),
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.call, Call::Ended(_))
    }
}

/// How far a server is with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The model is asked.
    Thinking,
    /// The far side is asked what became of this attempt.
    LookingUp(u8),
    /// This was sent to the database, and no answer has come.
    Committing(Write),
    /// The intent is committed; the request has not left.
    ToSend(u8),
    /// The request is out.
    Open(u8),
    /// The hand-back was sent to the database.
    HandingBack,
    /// The run was given up with a write under way that nobody will send again: only what becomes of that is waited for.
    GivenUp { sent: bool },
}

/// A run in a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) epoch: u8,
    pub(crate) seq: u8,
    pub(crate) stage: Stage,
    /// It stood still and has not renewed its lease since; for the properties alone.
    pub(crate) slept: bool,
}

/// Whether a server takes steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Up,
    /// Stopped like by SIGSTOP: time goes on without it.
    Stopped,
    Down,
}

/// A server process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) mode: Mode,
    pub(crate) draining: bool,
    /// It may have a run that it doesn't know of: a claim had no answer.
    pub(crate) unsure: bool,
    /// Ticks until it gives up its runs, by its own clock. All its leases are renewed together, so it is one number.
    pub(crate) fence_left: u8,
    /// A run that it found when it looked, where looking and taking are not one.
    pub(crate) found: Option<usize>,
    /// By run.
    pub(crate) tasks: Vec<Option<Task>>,
}

impl Server {
    pub(crate) fn fresh(runs: usize) -> Self {
        Self {
            mode: Mode::Up,
            draining: false,
            unsure: false,
            fence_left: FENCE,
            found: None,
            tasks: vec![None; runs],
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.mode == Mode::Up
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.iter().all(Option::is_none)
    }

    /// It works on the run, and not only waits for what becomes of a write.
    pub(crate) fn holds(&self, run: usize) -> bool {
        self.tasks[run].is_some_and(|task| !matches!(task.stage, Stage::GivenUp { .. }))
    }
}

/// On the way between a server and the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    /// To the database.
    Commit { server: usize, run: usize, id: CommitId, write: Write },
    /// To the database.
    HandBack { server: usize, run: usize, epoch: u8 },
    /// To the server: what became of its commit.
    Answer { server: usize, run: usize, id: CommitId, stored: bool },
    /// To the server: its hand-back was dealt with.
    HandedBack { server: usize, run: usize, epoch: u8 },
    /// To the server: it has a run. `age`: ticks since it asked.
    Claimed { server: usize, run: usize, epoch: u8, deaths: u8, age: u8 },
}

impl Message {
    /// The server that waits for it; `None`: it goes to the database.
    pub(crate) fn receiver(&self) -> Option<usize> {
        match *self {
            Self::Answer { server, .. } | Self::HandedBack { server, .. } | Self::Claimed { server, .. } => {
                Some(server)
            }
            Self::Commit { .. } | Self::HandBack { .. } => None,
        }
    }
}

/// Faults that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Faults {
    pub(crate) crashes: u8,
    pub(crate) stops: u8,
    pub(crate) drains: u8,
    /// Steps of the database's clock.
    pub(crate) clock_steps: u8,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) rows: Vec<Row>,
    pub(crate) servers: Vec<Server>,
    pub(crate) net: BTreeSet<Message>,
    pub(crate) faults: Faults,
}
