//! Why a request got no result, by what is known of it, and what that means for a call and for a list.

use answerable_core::text;
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::McpFault;
use rmcp::model::ErrorCode as RpcCode;

use crate::egress::{Fault, Refused};
use crate::http::outcome::{Meaning, REFUSAL_CHARS, meaning};
use crate::mask::Mask;

/// Why a request got no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing of it left, and nothing will.
    Forbidden(String),
    /// Nothing of it left; it may be tried again.
    NotSent(String),
    /// The server knows the session no more, so it didn't look at the request.
    Lost,
    /// The server answered with a status other than 2xx, and said `said`; `after` is its `Retry-After` in milliseconds.
    Status { status: u16, says_when: bool, after: Option<u64>, said: String },
    /// The server answered with an error of the protocol.
    Rpc { code: i64, message: String },
    /// It left, and what carries the answer broke.
    Cut,
    /// It left, and no whole answer came in time.
    Late,
    /// It was answered with something that is no answer.
    Garbled(&'static str),
    /// Its answer is longer than the server reads.
    TooLong,
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::Forbidden(format!("{refused}; nothing was sent"))
    }
}

impl From<&reqwest::Error> for Failure {
    fn from(error: &reqwest::Error) -> Self {
        match Fault::from(error) {
            Fault::Refused(refused) => refused.into(),
            Fault::NotConnected => Self::not_connected(),
            Fault::Cut => Self::Cut,
        }
    }
}

impl Failure {
    /// No connection came about.
    pub(super) fn not_connected() -> Self {
        Self::NotSent("no connection could be made; nothing was sent".into())
    }

    /// Whether it may be that the server knows the session no more, though it doesn't say so in the way that counts.
    pub(super) fn hints_at_lost_session(&self) -> bool {
        let speaks_of_the_call =
            [RpcCode::INVALID_PARAMS, RpcCode::METHOD_NOT_FOUND, RpcCode::INTERNAL_ERROR]
                .map(|code| i64::from(code.0));
        matches!(self, Self::Rpc { code, message }
            if !speaks_of_the_call.contains(code) && message.to_ascii_lowercase().contains("session"))
    }

    /// What it means for a call that was sent.
    pub(super) fn into_attempt(self, mask: &Mask, timeout_ms: u64) -> Attempt {
        use ErrorCode::{OutputTooLarge, PermissionDenied, Timeout, Unavailable};
        match self {
            Self::Forbidden(why) => Attempt::Refused(PermissionDenied, why),
            Self::NotSent(why) => Attempt::NotDone(Unavailable, why, None),
            Self::Lost => Attempt::NotDone(Unavailable, "the server lost its session again".into(), None),
            Self::Status { status, says_when, after, said } => {
                let message = answered(status, &mask.text(&said));
                match meaning(status, says_when) {
                    Meaning::Refused(code) => Attempt::Refused(code, message),
                    Meaning::NotDone(code) => Attempt::NotDone(code, message, after),
                    Meaning::Unclear(code) => Attempt::Unclear(code, message),
                    Meaning::Done => Attempt::Unclear(Unavailable, message),
                }
            }
            Self::Rpc { code, message } => {
                let message = shown(&mask.text(&message));
                match refusal(code) {
                    Some(known) => Attempt::Refused(known, message),
                    // A gateway says so too of a server behind it that died within the call.
                    None => Attempt::Unclear(Unavailable, message),
                }
            }
            Self::Cut => Attempt::Unclear(Unavailable, "the connection was cut before an answer came".into()),
            Self::Late => Attempt::Unclear(Timeout, format!("no whole answer within {timeout_ms} ms")),
            Self::Garbled(why) => Attempt::Unclear(Unavailable, why.into()),
            Self::TooLong => Attempt::Unclear(OutputTooLarge, "the answer is longer than is read".into()),
        }
    }

    /// What it means for a call that could not be sent because no session could be opened: it never reached the tool.
    pub(super) fn before_a_call(self, mask: &Mask, timeout_ms: u64) -> Attempt {
        let says = |message: String| format!("no session could be opened: {message}; nothing was called");
        let is_final = self.is_final();
        match self.into_attempt(mask, timeout_ms) {
            Attempt::Unclear(code, message) if is_final => Attempt::Refused(code, says(message)),
            Attempt::Unclear(code, message) => Attempt::NotDone(code, says(message), None),
            Attempt::NotDone(code, message, after) => Attempt::NotDone(code, says(message), after),
            Attempt::Refused(ErrorCode::PermissionDenied, message) => {
                Attempt::Refused(ErrorCode::PermissionDenied, says(message))
            }
            // What the server says of its session is nothing that the model can mend.
            Attempt::Refused(_, message) => Attempt::Refused(ErrorCode::Unavailable, says(message)),
            done @ Attempt::Succeeded(_) => done,
        }
    }

    /// What it means for a list of tools; `Away` is worth another try.
    pub(super) fn into_fault(self, mask: &Mask, timeout_ms: u64) -> McpFault {
        let is_final = self.is_final();
        let message = match self.into_attempt(mask, timeout_ms) {
            Attempt::Refused(_, why) | Attempt::NotDone(_, why, _) | Attempt::Unclear(_, why) => why,
            Attempt::Succeeded(output) => output.content,
        };
        if is_final { McpFault::Refused(message) } else { McpFault::Away(message) }
    }

    /// Whether what asks only, as a greeting or a list does, would get the same again.
    fn is_final(&self) -> bool {
        match self {
            Self::Forbidden(_) | Self::Garbled(_) | Self::TooLong => true,
            Self::Rpc { code, .. } => *code != i64::from(RpcCode::INTERNAL_ERROR.0),
            Self::Status { status, says_when, .. } => {
                matches!(meaning(*status, *says_when), Meaning::Refused(_))
            }
            Self::NotSent(_) | Self::Lost | Self::Cut | Self::Late => false,
        }
    }

    /// How long the server wants to be left alone, in milliseconds.
    pub(super) fn after_ms(&self) -> Option<u64> {
        if let Self::Status { after, .. } = self { *after } else { None }
    }
}

/// The errors of the protocol which say that the request itself was no good, so that nothing was done. Any other says that
/// something went wrong, and not when.
fn refusal(code: i64) -> Option<ErrorCode> {
    match RpcCode(i32::try_from(code).ok()?) {
        RpcCode::INVALID_PARAMS => Some(ErrorCode::InvalidArguments),
        RpcCode::METHOD_NOT_FOUND | RpcCode::RESOURCE_NOT_FOUND => Some(ErrorCode::NotFound),
        RpcCode::PARSE_ERROR | RpcCode::INVALID_REQUEST => Some(ErrorCode::Internal),
        _ => None,
    }
}

/// A server's words as the model is shown them.
pub(super) fn shown(message: &str) -> String {
    let clean = answerable_core::json::clean_text(message);
    let whole = clean.trim();
    let head = text::head(whole, REFUSAL_CHARS);
    if head.len() < whole.len() { format!("{head}…") } else { head.to_owned() }
}

fn answered(status: u16, said: &str) -> String {
    match (status, shown(said)) {
        (300..=399, _) => format!("answered {status}, a redirect, which is not followed"),
        (400..=499, said) if !said.is_empty() => format!("answered {status}: {said}"),
        // A 5xx tells of the service's insides.
        _ => format!("answered {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, after: Option<u64>) -> Failure {
        Failure::Status { status, says_when: after.is_some(), after, said: "key sk-canary is wrong".into() }
    }

    fn rpc(code: i64) -> Failure {
        Failure::Rpc { code, message: "no sk-canary".into() }
    }

    /// The three readings of a failure: N(ot done), R(efused) or U(nclear) for a call, the same where no session came
    /// about, A(way) or R(efused) for a list.
    #[test]
    fn what_each_failure_means() {
        use ErrorCode::{
            InvalidArguments, NotFound, OutputTooLarge, PermissionDenied, RateLimited, Timeout, Unavailable,
        };
        let mask = Mask::new(["sk-canary"]);
        for (failure, letters, code) in [
            (Failure::Forbidden("no".into()), "RRR", PermissionDenied),
            (Failure::not_connected(), "NNA", Unavailable),
            (Failure::Lost, "NNA", Unavailable),
            (status(302, None), "RRR", Unavailable),
            (status(400, None), "RRR", InvalidArguments),
            (status(401, None), "RRR", PermissionDenied),
            (status(404, None), "RRR", NotFound),
            (status(429, Some(7)), "NNA", RateLimited),
            (status(500, None), "UNA", Unavailable),
            (status(503, None), "UNA", Unavailable),
            (status(503, Some(7)), "NNA", Unavailable),
            (rpc(-32602), "RRR", InvalidArguments),
            (rpc(-32601), "RRR", NotFound),
            (rpc(-32002), "RRR", NotFound),
            (rpc(-32700), "RRR", ErrorCode::Internal),
            (rpc(-32600), "RRR", ErrorCode::Internal),
            (rpc(-32603), "UNA", Unavailable),
            (rpc(-32000), "URR", Unavailable),
            (rpc(-32001), "URR", Unavailable),
            (rpc(0), "URR", Unavailable),
            (rpc(i64::MIN), "URR", Unavailable),
            (Failure::Cut, "UNA", Unavailable),
            (Failure::Late, "UNA", Timeout),
            (Failure::Garbled("odd"), "URR", Unavailable),
            (Failure::TooLong, "URR", OutputTooLarge),
        ] {
            let letter = |attempt: Attempt| match attempt {
                Attempt::NotDone(code, why, _) => ('N', code, why),
                Attempt::Refused(code, why) => ('R', code, why),
                Attempt::Unclear(code, why) => ('U', code, why),
                Attempt::Succeeded(_) => panic!("no success"),
            };
            let sent = letter(failure.clone().into_attempt(&mask, 10));
            let unsent = letter(failure.clone().before_a_call(&mask, 10));
            let listed = match failure.clone().into_fault(&mask, 10) {
                McpFault::Away(why) => ('A', why),
                McpFault::Refused(why) => ('R', why),
            };
            assert_eq!(String::from_iter([sent.0, unsent.0, listed.0]), letters, "{failure:?}");
            assert_eq!(sent.1, code, "{failure:?}");
            for why in [sent.2, unsent.2, listed.1] {
                assert!(!why.contains("canary"), "{why}");
            }
        }
    }

    #[test]
    fn some_errors_hint_at_a_lost_session() {
        for (code, message, wanted) in [
            (-32600, "Session not found", true),
            (-32001, "no such session", true),
            (-32600, "no such form", false),
            (-32602, "session_id is no number", false),
            (-32603, "session pool is empty", false),
        ] {
            let failure = Failure::Rpc { code, message: message.into() };
            assert_eq!(failure.hints_at_lost_session(), wanted, "{code} {message}");
        }
        assert!(!status(404, None).hints_at_lost_session());
    }

    #[test]
    fn a_pause_is_kept() {
        let attempt = status(429, Some(7)).into_attempt(&Mask::default(), 1);
        assert!(matches!(attempt, Attempt::NotDone(_, _, Some(7))), "{attempt:?}");
        assert_eq!(status(503, Some(9)).after_ms(), Some(9));
    }

    #[test]
    fn long_words_are_cut() {
        let long = shown(&format!(" {}\0 ", "é".repeat(REFUSAL_CHARS + 1)));
        assert_eq!(text::chars(&long), REFUSAL_CHARS + 1);
        assert!(long.ends_with('…') && shown(" a\0 ") == "a\u{fffd}");
    }
}
