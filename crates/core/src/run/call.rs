//! One tool call of the open step, as the state keeps it.

use serde::{Deserialize, Serialize};

use super::decision::Decision;
use super::state::is_default;
use crate::Millis;
use crate::id::{ApprovalId, CallId, LedgerId, MessageId};
use crate::permission::OnExpiry;
use crate::tool::{ErrorCode, ResultStatus};

/// No tenant's rules have this number.
const NO_RULES: i64 = -1;

/// A call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// Tool.
    pub tool_name: String,
    /// Hash of the input that will run.
    pub input_hash: String,
    /// A key for the far side.
    pub idempotency_key: String,
    /// The key is the agent's own and may be shared by calls of other runs.
    pub business_key: bool,
    /// Id and place of the message that will hold its result; `None` for a call that stands in no history.
    pub message: Option<(MessageId, u64)>,
    /// The caller of the API answers it.
    pub client: bool,
    /// Another agent's run answers it.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub agent: bool,
    /// It changes something.
    pub writes: bool,
    /// It may run beside others.
    pub parallel_safe: bool,
    /// A person changed its arguments to this, as text that may be cut: the model must be told.
    pub edited: Option<String>,
    /// Number of the tenant's rules under which it was judged last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: i64,
    /// That verdict holds until then; `None`: as long as those rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_until: Option<Millis>,
    /// How often people were asked before: what they approved then had changed when it was to be used. 1, too, where a server
    /// of an older version may have asked them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asked_before: u32,
    /// The approval by which it may begin; it is used by that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Approved>,
    /// When it was sent first.
    pub started_at: Option<Millis>,
    /// Where it is.
    pub stage: Stage,
    /// Since when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
}

impl Call {
    /// Whether it takes a place beside other calls.
    pub fn is_busy(&self) -> bool {
        self.is_at_work() || matches!(self.stage, Stage::Child { .. })
    }

    /// Its ledger entry has the same UUID: one entry a call.
    pub fn ledger_id(&self) -> LedgerId {
        LedgerId(self.id.0)
    }

    /// The approval that is open or was last: the first has the same UUID, those after it are next to it in time.
    pub fn approval_id(&self) -> ApprovalId {
        let nth = u128::from(self.asked_before) << 1;
        ApprovalId(uuid::Uuid::from_u128(self.id.0.as_u128() ^ nth))
    }

    /// The approval that asks what became of it: another one, next to the first in time.
    pub fn uncertain_approval_id(&self) -> ApprovalId {
        ApprovalId(uuid::Uuid::from_u128(self.id.0.as_u128() ^ 1))
    }

    /// Number of the rules by which it may begin at `at`; none that there is, if it must be judged again.
    pub fn rules_at(&self, at: Millis) -> i64 {
        if self.allowed_until.is_some_and(|until| until <= at) { NO_RULES } else { self.rules }
    }

    /// Whether it has a result.
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    /// Whether something of it is going on outside, or will without anybody's doing.
    pub fn is_at_work(&self) -> bool {
        matches!(
            self.stage,
            Stage::Key | Stage::Out { .. } | Stage::Backoff { .. } | Stage::Reconciling { .. }
        )
    }
}

/// An approval that was given and isn't used yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// Which.
    pub approval: ApprovalId,
    /// What was decided.
    pub decision: Decision,
    /// After that it is too old to be used.
    pub until: Millis,
    /// What that comes to.
    pub on_expiry: OnExpiry,
}

/// Where a call is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// People are asked.
    Asked {
        /// They have until then.
        expires_at: Millis,
        /// What happens then.
        on_expiry: OnExpiry,
    },
    /// It may run when its turn comes.
    Ready,
    /// It is looked up in the ledger whether it was made before: by its business key, or among the effects that the run
    /// brought along. Of a call of another agent also who that is.
    Key,
    /// Attempt number `attempt` is out.
    Out {
        /// From 1.
        attempt: u32,
        /// An earlier attempt may have happened.
        tainted: bool,
    },
    /// Attempt number `attempt` came to nothing; the next is due at `until`.
    Backoff {
        /// From 1.
        attempt: u32,
        /// An earlier attempt may have happened.
        tainted: bool,
        /// When.
        until: Millis,
    },
    /// The caller of the API has until then to answer.
    Parked {
        /// When.
        expires_at: Millis,
    },
    /// Another agent's run works on it until then.
    Child {
        /// When.
        expires_at: Millis,
        /// What that run may spend.
        given: super::child::Given,
        /// It was told to end.
        #[serde(default, skip_serializing_if = "crate::message::is_false")]
        stopping: bool,
    },
    /// The far side is asked what became of attempt `attempt`.
    Reconciling {
        /// From 1.
        attempt: u32,
        /// What went wrong, for people.
        why: String,
    },
    /// A person is asked what became of it.
    AskedUncertain {
        /// They have until then.
        expires_at: Millis,
    },
    /// It has a result.
    Done(CallOutcome),
}

/// What the state keeps of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOutcome {
    /// How it ended.
    pub status: ResultStatus,
    /// Why it didn't succeed.
    pub error_code: Option<ErrorCode>,
    /// Hash of what the model sees.
    pub result_hash: String,
}
