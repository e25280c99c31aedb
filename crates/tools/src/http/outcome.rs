//! What an answer means: the contract's table, row by row.

use answerable_core::text;
use answerable_core::tool::{Attempt, ErrorCode};
use answerable_ports::{Came, PreparedCall};
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

use super::body::{self, Broken};
use super::content::Content;
use crate::mask::Mask;
use crate::retry_after;

/// Most bytes of an output that are read and kept.
const MOST_OUTPUT: usize = 10 << 20;
/// Most bytes of a refusal that are looked at.
pub(crate) const MOST_REFUSAL: usize = 64 << 10;
/// Characters of a refusal that the model is shown.
pub(crate) const REFUSAL_CHARS: usize = 2000;

/// What a status means for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It happened.
    Done,
    /// It didn't and won't.
    Refused(ErrorCode),
    /// It didn't this time.
    NotDone(ErrorCode),
    /// Nobody knows.
    Unclear(ErrorCode),
}

/// Reads an answer whose head has come; the deadline covers its body too.
pub(super) async fn read(
    mut response: Response,
    deadline: Instant,
    call: &PreparedCall,
    mask: &Mask,
) -> Came {
    let status = response.status().as_u16();
    let meaning = meaning(status, response.headers().contains_key(RETRY_AFTER));
    if meaning == Meaning::Done {
        return succeeded(response, deadline, call, mask).await;
    }
    let after = retry_after::read(response.headers());
    // A 5xx tells of the service's insides, and a redirect of where it points: neither is for the model.
    let said =
        if (400..500).contains(&status) { said(&mut response, deadline, mask).await } else { String::new() };
    let message =
        if said.is_empty() { format!("answered {status}") } else { format!("answered {status}: {said}") };
    let attempt = match meaning {
        Meaning::Refused(code) if status < 400 => {
            Attempt::Refused(code, format!("{message}, a redirect, which is not followed"))
        }
        Meaning::Refused(code) => Attempt::Refused(code, message),
        Meaning::NotDone(code) => Attempt::NotDone(code, message, after),
        Meaning::Done | Meaning::Unclear(_) => Attempt::Unclear(unclear_code(meaning), message),
    };
    attempt.into()
}

/// No (whole) answer within the tool's timeout.
pub(super) fn late(call: &PreparedCall) -> Attempt {
    Attempt::Unclear(ErrorCode::Timeout, format!("no whole answer within {} ms", call.tool.timeout_ms()))
}

pub(crate) fn meaning(status: u16, says_when: bool) -> Meaning {
    use ErrorCode::{
        Conflict, InvalidArguments, NotFound, PermissionDenied, RateLimited, Timeout, Unavailable,
    };
    match status {
        200..=299 => Meaning::Done,
        300..=399 => Meaning::Refused(Unavailable),
        401 | 403 => Meaning::Refused(PermissionDenied),
        404 | 410 => Meaning::Refused(NotFound),
        409 | 412 => Meaning::Refused(Conflict),
        429 => Meaning::NotDone(RateLimited),
        // The server gave up waiting, or fears a replay: what it did by then it doesn't say.
        408 => Meaning::Unclear(Timeout),
        425 => Meaning::Unclear(Unavailable),
        400..=499 => Meaning::Refused(InvalidArguments),
        503 if says_when => Meaning::NotDone(Unavailable),
        _ => Meaning::Unclear(Unavailable),
    }
}

fn unclear_code(meaning: Meaning) -> ErrorCode {
    if let Meaning::Unclear(code) = meaning { code } else { ErrorCode::Unavailable }
}

async fn succeeded(mut response: Response, deadline: Instant, call: &PreparedCall, mask: &Mask) -> Came {
    match body::read(&mut response, MOST_OUTPUT, deadline).await {
        Ok(body) => {
            let content = Content::of(response.headers(), &body, mask);
            let (output, artifact) = content.into_output(call, body.is_cut);
            Came { attempt: Attempt::Succeeded(output), artifacts: artifact.into_iter().collect() }
        }
        Err(Broken::Late) => late(call).into(),
        Err(Broken::Cut) => {
            Attempt::Unclear(ErrorCode::Unavailable, "the connection was cut within the answer".into()).into()
        }
    }
}

/// The words of a refusal, so that the model can mend its call. The status alone is clear enough where they don't come.
async fn said(response: &mut Response, deadline: Instant, mask: &Mask) -> String {
    let Ok(body) = body::read(response, MOST_REFUSAL, deadline).await else { return String::new() };
    let headers: &HeaderMap = response.headers();
    let whole = Content::of(headers, &body, mask).into_text().unwrap_or_default();
    let whole = whole.trim();
    let head = text::head(whole, REFUSAL_CHARS);
    if head.len() < whole.len() { format!("{head}…") } else { head.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_table() {
        use ErrorCode::{
            Conflict, InvalidArguments, NotFound, PermissionDenied, RateLimited, Timeout, Unavailable,
        };
        use Meaning::{Done, NotDone, Refused, Unclear};
        for (status, says_when, wanted) in [
            (200, false, Done),
            (204, false, Done),
            (299, true, Done),
            (302, false, Refused(Unavailable)),
            (304, false, Refused(Unavailable)),
            (400, true, Refused(InvalidArguments)),
            (401, false, Refused(PermissionDenied)),
            (403, false, Refused(PermissionDenied)),
            (404, false, Refused(NotFound)),
            (405, false, Refused(InvalidArguments)),
            (408, false, Unclear(Timeout)),
            (409, false, Refused(Conflict)),
            (410, false, Refused(NotFound)),
            (412, false, Refused(Conflict)),
            (418, false, Refused(InvalidArguments)),
            (422, false, Refused(InvalidArguments)),
            (425, false, Unclear(Unavailable)),
            (429, false, NotDone(RateLimited)),
            (429, true, NotDone(RateLimited)),
            (500, true, Unclear(Unavailable)),
            (502, false, Unclear(Unavailable)),
            (503, false, Unclear(Unavailable)),
            (503, true, NotDone(Unavailable)),
            (504, false, Unclear(Unavailable)),
            (599, false, Unclear(Unavailable)),
            (999, false, Unclear(Unavailable)),
        ] {
            assert_eq!(meaning(status, says_when), wanted, "{status} {says_when}");
        }
    }
}
