//! What runs are given to work on, as requests bring it: read, and its addresses judged as all others are.

use answerable_core::input::{Content, InputMessage, read_content, read_input};
use serde_json::Value;

use crate::problem::Problem;
use crate::state::AppState;

/// Reads a request's `input`.
pub(crate) fn input(state: &AppState, input: &Value) -> Result<Vec<InputMessage>, Problem> {
    let messages = read_input(input).map_err(|fault| Problem::invalid(vec![fault.under("/input")]))?;
    for (place, message) in messages.iter().enumerate() {
        check_addresses(state, &message.content, &format!("/input/{place}/content"))?;
    }
    Ok(messages)
}

/// Reads a request's `content`.
pub(crate) fn content(state: &AppState, content: &Value) -> Result<Content, Problem> {
    let content = read_content(content).map_err(|fault| Problem::invalid(vec![fault.under("/content")]))?;
    check_addresses(state, &content, "/content")?;
    Ok(content)
}

/// Providers fetch what is at these addresses, and some stand where this service does: what tools may not be sent to, they
/// aren't either.
fn check_addresses(state: &AppState, content: &Content, at: &str) -> Result<(), Problem> {
    content.addresses().try_for_each(|(place, url)| state.check_address(url, &format!("{at}/{place}/url")))
}
