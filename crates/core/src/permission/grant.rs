//! Remembered approvals: they answer where people would be asked, and no further than those who gave them could.

use std::collections::BTreeSet;

use super::judge::{CallFacts, Judgement};
use super::policy::Effect;
use crate::Millis;
use crate::agent::Risk;
use crate::id::GrantId;

/// Whoever has a decision link: nobody in particular.
pub const BY_LINK: &str = "link";

/// A remembered approval that covers a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// Tool.
    pub tool_name: String,
    /// The one input that it covers; `None`: any.
    pub input_hash: Option<String>,
    /// It holds until then.
    pub expires_at: Option<Millis>,
    /// Those who approved what it was made of.
    pub deciders: Vec<String>,
    /// Risk of the tool then: it covers none that is higher.
    pub max_risk: Risk,
}

/// Why a remembered approval doesn't answer for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// It is of another tool.
    OtherTool,
    /// It is of one input, and this is another.
    OtherInput,
    /// Its time is over.
    Expired,
    /// The tool is riskier than it was then.
    HigherRisk,
    /// Critical risk is asked for each time.
    Critical,
    /// Too few of those who gave it may approve this.
    TooFew,
    /// The policies allow the call themselves.
    NotNeeded,
    /// The policies deny the call.
    Denied,
}

impl Gap {
    /// For people.
    pub fn why(self) -> &'static str {
        match self {
            Self::OtherTool => "it is of another tool",
            Self::OtherInput => "it is of another input",
            Self::Expired => "it has expired",
            Self::HigherRisk => "the tool's risk is higher than it was then",
            Self::Critical => "people are asked about critical risk each time",
            Self::TooFew => "too few of those who gave it may approve this, with keys that are still valid",
            Self::NotNeeded => "the policies allow the call without it",
            Self::Denied => "no approval beats a denial",
        }
    }
}

impl Grant {
    /// Why it doesn't answer what the policies' `verdict` asks about a call; `None`: it does.
    pub(super) fn gap(&self, call: &CallFacts<'_>, verdict: &Judgement, now: Millis) -> Option<Gap> {
        let gaps = [
            (verdict.effect == Effect::Deny, Gap::Denied),
            (verdict.effect == Effect::Allow, Gap::NotNeeded),
            (self.tool_name != call.tool_name, Gap::OtherTool),
            (call.risk == Risk::Critical, Gap::Critical),
            (call.risk > self.max_risk, Gap::HigherRisk),
            (self.input_hash.as_deref().is_some_and(|hash| hash != call.input_hash), Gap::OtherInput),
            (self.expires_at.is_some_and(|at| at <= now), Gap::Expired),
            (!are_enough(&self.named(), verdict, call.creators), Gap::TooFew),
        ];
        gaps.into_iter().find_map(|(is_there, gap)| is_there.then_some(gap))
    }

    /// Those behind it who said who they are: a link is for one approval, and nothing later follows from it.
    fn named(&self) -> Vec<String> {
        self.deciders.iter().filter(|by| by.as_str() != BY_LINK).cloned().collect()
    }
}

/// Whether enough different people approved. Where whoever started the run may not, neither counts who did, nor who may have;
/// where several must, nobody counts who may be one of the others.
pub(super) fn are_enough(deciders: &[String], verdict: &Judgement, creators: &[String]) -> bool {
    let has_name = |decider: &String| decider.as_str() != BY_LINK;
    let counts = |decider: &&String| {
        let other = verdict.self_approval || (has_name(decider) && !creators.contains(decider));
        other && (verdict.approvals < 2 || has_name(decider))
    };
    let different: BTreeSet<&String> = deciders.iter().filter(counts).collect();
    different.len() >= verdict.approvals as usize
}
