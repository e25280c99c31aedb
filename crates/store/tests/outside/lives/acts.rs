//! What people, servers and time may do in a life.

use answerable_store::DecisionWord;
use proptest::prelude::*;

use super::oracle::Wish;

/// Something that somebody does.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// A server goes on with the run, undisturbed; or what is out comes back first.
    Work(usize, Comes),
    /// It thinks of its next commit.
    Draft(usize, Comes),
    /// It sends that, however old it is.
    Commit(usize),
    /// The other server takes the run.
    TakeOver(usize),
    /// Somebody decides on the `which`-th of the run's approvals.
    Decide { which: usize, word: DecisionWord, edit: Option<u64>, who: usize, remember: bool },
    /// The tenant's policy is another.
    Policy(Wish),
    /// The newest grant is taken back.
    RevokeGrant,
    /// Somebody's key is taken back; they get another.
    RevokeKey(usize),
    /// The run is cancelled.
    Cancel,
    /// Time passes.
    Pass(i64),
}

/// Whether what was asked for outside comes back: the first call that is out, or the model with its next calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comes(pub(super) bool);

pub(super) fn wishes() -> impl Strategy<Value = Wish> {
    let people = prop_oneof![1 => Just(0_u32), 4 => Just(1), 2 => Just(2), 1 => Just(3)];
    (people, prop::bool::weighted(0.3)).prop_map(|(people, others)| Wish {
        people,
        others,
        denies_large: false,
    })
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let word = prop_oneof![
        6 => Just(DecisionWord::Approve),
        1 => Just(DecisionWord::Deny),
        1 => Just(DecisionWord::Answer),
    ];
    let decide =
        (0..6_usize, word, prop::option::weighted(0.3, 1..80_u64), 0..5_usize, prop::bool::weighted(0.5));
    let act = prop_oneof![
        4 => (0..2_usize, prop::bool::weighted(0.7)).prop_map(|(server, comes)| Act::Work(server, Comes(comes))),
        6 => (0..2_usize, prop::bool::weighted(0.7)).prop_map(|(server, comes)| Act::Draft(server, Comes(comes))),
        6 => (0..2_usize).prop_map(Act::Commit),
        1 => (0..2_usize).prop_map(Act::TakeOver),
        10 => decide.prop_map(|(which, word, edit, who, remember)| Act::Decide { which, word, edit, who, remember }),
        1 => (wishes(), prop::bool::ANY).prop_map(|(wish, denies_large)| Act::Policy(Wish { denies_large, ..wish })),
        1 => Just(Act::RevokeGrant),
        1 => (0..3_usize).prop_map(Act::RevokeKey),
        1 => (0..16_i64).prop_map(|n| match n {
            0 => Act::Cancel,
            // Longer than an approval may lie about.
            1 => Act::Pass(3_700_000),
            n => Act::Pass(n * 5_000),
        }),
    ];
    prop::collection::vec(act, 30..70)
}
