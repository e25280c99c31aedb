//! Named points at which a test build can die, and guards that it can do without. In a normal build (without the feature
//! `on`) every function here is empty and nothing of it is left.
//!
//! - `ANSWERABLE_FAULT_CRASH=commit.after:7,effect.before@poison`: the process kills itself (SIGKILL, so nothing is
//!   cleaned up) the seventh time that it passes `commit.after`, and the first time that it passes `effect.before` with
//!   the detail `poison`. Each process counts anew.
//! - `ANSWERABLE_FAULT_WITHOUT=fence`: the guard is left out. A test suite that stays green without a guard doesn't
//!   test it.

#[cfg(feature = "on")]
mod plan;

/// A place in the program that is worth dying at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before and after due runs are claimed.
    Claim,
    /// Before and after runs of dead servers are claimed.
    Reclaim,
    /// Before and after the engine's one write.
    Commit,
    /// Before and after any other transaction is committed: accepting, deciding, handing back, late outcomes.
    Write,
    /// Before and after a tool call is sent; the detail is the tool's name.
    Effect,
    /// Before and after a model is asked.
    Model,
    /// Before and after the database is migrated.
    Migrate,
}

impl Point {
    /// Its name in `ANSWERABLE_FAULT_CRASH`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Reclaim => "reclaim",
            Self::Commit => "commit",
            Self::Write => "write",
            Self::Effect => "effect",
            Self::Model => "model",
            Self::Migrate => "migrate",
        }
    }
}

/// Something that keeps a promise, and that a test build can leave out to see that its loss is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// A commit is refused without the run's newest epoch and sequence.
    Fence,
    /// Two servers can't claim the same run: the claim's lock, `SKIP LOCKED`, and its second look.
    ClaimLock,
    /// Two calls with one business key are one.
    BusinessKeys,
    /// Two requests with one `Idempotency-Key` are one.
    IdempotencyKeys,
    /// A call is sent only after it is committed that it will be.
    IntentFirst,
    /// A run counts the servers that died with it.
    RecoveryCounter,
    /// A server that can't renew its leases stops its own work before they run out.
    SelfFence,
}

impl Guard {
    /// Its name in `ANSWERABLE_FAULT_WITHOUT`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::ClaimLock => "claim_lock",
            Self::BusinessKeys => "business_keys",
            Self::IdempotencyKeys => "idempotency_keys",
            Self::IntentFirst => "intent_first",
            Self::RecoveryCounter => "recovery_counter",
            Self::SelfFence => "self_fence",
        }
    }
}

/// The program is about to do what `point` names.
#[inline]
pub fn before(point: Point) {
    before_of(point, "");
}

/// The program has just done what `point` names.
#[inline]
pub fn after(point: Point) {
    after_of(point, "");
}

/// [`before`], with a detail.
#[inline]
pub fn before_of(point: Point, detail: &str) {
    pass(point, "before", detail);
}

/// [`after`], with a detail.
#[inline]
pub fn after_of(point: Point, detail: &str) {
    pass(point, "after", detail);
}

#[cfg(feature = "on")]
fn pass(point: Point, side: &str, detail: &str) {
    plan::of_this_process().pass(point, side, detail);
}

#[cfg(not(feature = "on"))]
#[inline]
fn pass(_: Point, _: &str, _: &str) {}

/// Whether a guard is left out.
#[cfg(feature = "on")]
pub fn without(guard: Guard) -> bool {
    plan::of_this_process().without(guard)
}

/// Whether a guard is left out: never in this build.
#[cfg(not(feature = "on"))]
#[inline]
pub const fn without(_: Guard) -> bool {
    false
}
