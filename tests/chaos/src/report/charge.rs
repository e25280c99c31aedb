//! What the service can be accused of.

/// What a finding accuses the service of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Charge {
    /// An accepted run is gone, or did not end and waits for nobody.
    Lost,
    /// One request with one key gave two runs.
    TwoRuns,
    /// An effect was made twice, or asked for again after it may have been made.
    Repeated,
    /// The ledger says what is not so.
    FalseLedger,
    /// A run has ended, and an entry of its ledger says that the call is still out.
    OpenEntry,
    /// A server that was no longer the owner did something.
    Stale,
    /// A run's events don't have exactly one end, as their last.
    DoubleEnd,
    /// Events are missing, or a stream skipped or repeated some.
    Gap,
    /// Somebody was told a thing that did not hold.
    Promise,
    /// A cancelled run went on.
    Cancel,
    /// A call that a person denied had an effect.
    Denied,
    /// The model was asked more often than deaths and failures explain.
    ModelAgain,
    /// The model was sent a history that providers refuse.
    History,
    /// A run that kills servers was not given up, or one that kills none was.
    CrashLoop,
    /// An answer that nobody should get.
    Odd,
}

impl Charge {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 15] = [
        Self::Lost,
        Self::TwoRuns,
        Self::Repeated,
        Self::FalseLedger,
        Self::OpenEntry,
        Self::Stale,
        Self::DoubleEnd,
        Self::Gap,
        Self::Promise,
        Self::Cancel,
        Self::Denied,
        Self::ModelAgain,
        Self::History,
        Self::CrashLoop,
        Self::Odd,
    ];

    /// Its name in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::TwoRuns => "accepted",
            Self::Repeated => "repeated",
            Self::FalseLedger => "ledger",
            Self::OpenEntry => "open",
            Self::Stale => "stale",
            Self::DoubleEnd => "terminal",
            Self::Gap => "gap",
            Self::Promise => "promise",
            Self::Cancel => "cancel",
            Self::Denied => "denied",
            Self::ModelAgain => "exact",
            Self::History => "history",
            Self::CrashLoop => "crash_loop",
            Self::Odd => "odd",
        }
    }

    /// Its row in the table.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Lost => "runs lost",
            Self::TwoRuns => "requests that gave two runs",
            Self::Repeated => "effects repeated",
            Self::FalseLedger => "false ledger entries",
            Self::OpenEntry => "entries left open",
            Self::Stale => "writes by stale owners",
            Self::DoubleEnd => "double or missing terminal events",
            Self::Gap => "gaps in events",
            Self::Promise => "answers that did not hold",
            Self::Cancel => "cancelled runs that went on",
            Self::Denied => "denied calls with an effect",
            Self::ModelAgain => "unexplained model requests",
            Self::History => "illegal histories",
            Self::CrashLoop => "crash loops that are none, or last",
            Self::Odd => "unexpected answers",
        }
    }
}
