//! Failed attempts.

use answerable_core::context::message_tokens;
use answerable_core::model::{FailureKind, ModelFailure, ModelRequest, Usage, estimate_tokens};
use answerable_ports::Patience;
use answerable_tools::Fault;

use crate::assembly::Late;

/// A failure that tells of no tokens and no time to come back.
pub(crate) fn of(kind: FailureKind, status: Option<u16>, message: impl Into<String>) -> ModelFailure {
    ModelFailure { kind, status, message: message.into(), retry_after_ms: None, usage: None }
}

/// Too little in time.
pub(crate) fn late(late: Late, patience: &Patience) -> ModelFailure {
    let (what, time) = match late {
        Late::Whole => ("no whole reply", patience.total),
        Late::First => ("no first word", patience.first),
        Late::Next => ("nothing more", patience.idle),
    };
    of(FailureKind::Passing, None, format!("{what} within {} ms", time.as_millis()))
}

/// No answer at all.
pub(crate) fn unanswered(fault: Fault) -> ModelFailure {
    match fault {
        Fault::Refused(refused) => of(FailureKind::Unusable, None, refused.to_string()),
        Fault::NotConnected => of(FailureKind::Passing, None, "no connection could be made"),
        Fault::Cut => of(FailureKind::Passing, None, "the connection was cut before an answer came"),
    }
}

/// Tokens of a reply that broke off: what the server told, and where it told nothing though it had begun to speak, an
/// estimate, for it is billed all the same.
pub(crate) fn usage(told: Option<Usage>, said: u64, request: &ModelRequest) -> Option<Usage> {
    if said == 0 {
        return told;
    }
    let told = told.unwrap_or(Usage { estimated: true, ..Usage::default() });
    let asked = if told.input_tokens > 0 { told.input_tokens } else { asked_tokens(request) };
    let is_guess = told.input_tokens == 0 || told.output_tokens < said;
    Some(Usage {
        input_tokens: asked,
        output_tokens: told.output_tokens.max(said),
        estimated: told.estimated || is_guess,
        ..told
    })
}

/// Tokens of a request, estimated.
pub(crate) fn asked_tokens(request: &ModelRequest) -> u64 {
    let tool = |tool: &answerable_core::model::ToolOffer| {
        estimate_tokens(&tool.description) + estimate_tokens(&tool.input_schema.to_string())
    };
    estimate_tokens(&request.system)
        + request.messages.iter().map(message_tokens).sum::<u64>()
        + request.tools.iter().map(tool).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broken_reply_took() {
        let request = ModelRequest { system: "one two three four".into(), ..ModelRequest::default() };
        let tokens = |usage: Option<Usage>| usage.map(|u| (u.input_tokens, u.output_tokens, u.estimated));
        let told =
            |input_tokens, output_tokens| Some(Usage { input_tokens, output_tokens, ..Usage::default() });
        assert_eq!(usage(None, 0, &request), None, "nothing was said, so nobody knows");
        assert_eq!(tokens(usage(told(9, 1), 0, &request)), Some((9, 1, false)));
        assert_eq!(tokens(usage(None, 7, &request)), Some((5, 7, true)));
        assert_eq!(tokens(usage(told(9, 1), 7, &request)), Some((9, 7, true)), "begun with a count of one");
        assert_eq!(tokens(usage(told(9, 8), 7, &request)), Some((9, 8, false)));
    }
}
