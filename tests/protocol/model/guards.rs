//! What keeps the promises, as data, so that each can be left out.

/// The protocol's guards; `true`: it is in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guards {
    /// `commit_run` refuses an epoch that is not the run's newest.
    pub(crate) epoch: bool,
    /// `commit_run` refuses a sequence that is not the run's next.
    pub(crate) seq: bool,
    /// `commit_run` knows the commit that it stored last, and says `stored` again.
    pub(crate) commit_id: bool,
    /// It says so only to the run's newest epoch.
    pub(crate) repeat_epoch: bool,
    /// A hand-back counts only with the run's newest epoch.
    pub(crate) hand_back_epoch: bool,
    /// Only a lease with its owner and the newest epoch is renewed.
    pub(crate) renew_epoch: bool,
    /// Claims are made one at a time, so that a tenant's places are counted and not raced for.
    pub(crate) claim_lock: bool,
    /// Whoever takes a run looks again, with its row locked, whether it is still to be had.
    pub(crate) second_look: bool,
    /// A request leaves only after it is committed that it will.
    pub(crate) intent_first: bool,
    /// Taking over a lease that ran out counts as a death of the run's server.
    pub(crate) recovery_counter: bool,
    /// No longer if that server is seen again.
    pub(crate) seen_again: bool,
    /// A server that can't renew gives up its runs after two thirds of the lease.
    pub(crate) self_fence: bool,
    /// That time is counted from when the claim was asked for, not from its answer.
    pub(crate) claim_age: bool,
    /// A server whose claim had no answer gives back what it doesn't know it has.
    pub(crate) unheard_claims: bool,
    /// The lease's age is looked at once more right before a request leaves.
    pub(crate) look_before_send: bool,
    /// A request that had not left when its server gave up the run does not leave.
    pub(crate) drop_unsent: bool,
    /// A lease whose run its server gave up is renewed no more.
    pub(crate) let_go: bool,
}

impl Guards {
    /// All of them, as the code has them.
    pub(crate) const ALL: Self = Self {
        epoch: true,
        seq: true,
        commit_id: true,
        repeat_epoch: true,
        hand_back_epoch: true,
        renew_epoch: true,
        claim_lock: true,
        second_look: true,
        intent_first: true,
        recovery_counter: true,
        seen_again: true,
        self_fence: true,
        claim_age: true,
        unheard_claims: true,
        look_before_send: true,
        drop_unsent: true,
        let_go: true,
    };
}
