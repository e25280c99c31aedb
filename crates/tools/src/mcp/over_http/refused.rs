//! What an answer with a status other than 2xx says.

use reqwest::Response;
use reqwest::header::RETRY_AFTER;
use tokio::time::Instant;

use super::super::failure::Failure;
use super::super::message::{self, Message};
use super::line::Line;
use crate::http::body;
use crate::http::content::Content;
use crate::http::outcome::MOST_REFUSAL;
use crate::retry_after;

/// Reads what a refusal says, within limits; the status alone is clear enough where nothing comes.
pub(super) async fn read(line: &Line, mut response: Response, deadline: Instant) -> Failure {
    let status = response.status().as_u16();
    let (after, says_when) =
        (retry_after::read(response.headers()), response.headers().contains_key(RETRY_AFTER));
    if status == 404 && line.has_session() {
        return Failure::Lost;
    }
    let said = if (400..500).contains(&status) {
        said(line, &mut response, deadline).await
    } else {
        Said::default()
    };
    // Many servers answer 400 for a session that they don't know. Like every 4xx it says that nothing was done, so that
    // it is safe to believe them.
    if status == 400
        && line.has_session()
        && said.is_error
        && said.text.to_ascii_lowercase().contains("session")
    {
        return Failure::Lost;
    }
    Failure::Status { status, says_when, after, said: said.text }
}

#[derive(Default)]
struct Said {
    text: String,
    /// It is an error of the protocol.
    is_error: bool,
}

async fn said(line: &Line, response: &mut Response, deadline: Instant) -> Said {
    let Ok(body) = body::read(response, MOST_REFUSAL, deadline).await else { return Said::default() };
    let whole = String::from_utf8_lossy(&body.bytes);
    if let Ok([Message::Answer(_, Err(error))]) = message::read(&whole).as_deref() {
        return Said { text: error.message.clone(), is_error: true };
    }
    let content = Content::of(response.headers(), &body, line.mask());
    Said { text: content.into_text().unwrap_or_default(), is_error: false }
}
