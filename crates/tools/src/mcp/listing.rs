//! The list of a server's tools: all pages of it, within bounds.

use answerable_ports::ListedTool;
use rmcp::model::PaginatedRequestParams;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::failure::Failure;
use super::few::Few;
use super::session::Session;
use crate::mask::Mask;

/// Most pages of a list.
const MOST_PAGES: usize = 1000;
/// Most tools of a list.
const MOST_TOOLS: usize = 10_000;
/// Most bytes of all pages of a list.
const MOST_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'p> {
    #[serde(borrow)]
    tools: Few<'p, MOST_TOOLS>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// A tool, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'t> {
    #[serde(borrow)]
    name: &'t RawValue,
    #[serde(borrow, default)]
    title: Option<&'t RawValue>,
    #[serde(borrow, default)]
    description: Option<&'t RawValue>,
    #[serde(borrow, default)]
    input_schema: Option<&'t RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'t RawValue>,
}

const TOO_LONG: Failure = Failure::Garbled("the server's list of tools is longer than is read");

/// Reads all pages until `deadline`. What is no tool is left out.
pub(super) async fn read(
    session: &Session,
    deadline: Instant,
    mask: &Mask,
) -> Result<Vec<ListedTool>, Failure> {
    let (mut tools, mut bytes, mut cursor) = (Vec::new(), 0, None::<String>);
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let params = serde_json::to_value(params).unwrap_or_else(|_| json!({}));
        let result = session.ask("tools/list", params, deadline).await?;
        bytes += result.get().len();
        if bytes > MOST_BYTES {
            return Err(TOO_LONG);
        }
        let page: Page<'_> = serde_json::from_str(result.get()).map_err(|_| {
            Failure::Garbled("the server's list of tools has no such form as the protocol wants")
        })?;
        tools.extend(page.tools.items.iter().filter_map(|tool| listed(tool, mask)));
        if tools.len() + page.tools.more > MOST_TOOLS {
            return Err(TOO_LONG);
        }
        match page.next_cursor.filter(|next| !next.is_empty()) {
            None => return Ok(tools),
            // It would go round for ever.
            next if next == cursor => break,
            next => cursor = next,
        }
    }
    Err(Failure::Garbled("the server's list of tools has no end"))
}

/// A tool, read leniently: only its name must make sense.
fn listed(tool: &RawValue, mask: &Mask) -> Option<ListedTool> {
    // A list would be read field by field.
    let object = Some(tool.get()).filter(|text| text.starts_with('{'))?;
    let tool: Tool<'_> = serde_json::from_str(object).ok()?;
    let value = |raw: &RawValue| Some(masked(serde_json::from_str(raw.get()).ok()?, mask));
    let text = |raw: &RawValue| value(raw)?.as_str().map(str::to_owned);
    Some(ListedTool {
        name: text(tool.name).filter(|name| !name.is_empty())?,
        title: tool.title.and_then(text),
        description: tool.description.and_then(text).unwrap_or_default(),
        input_schema: tool.input_schema.map_or(Some(Value::Null), value)?,
        annotations: tool.annotations.and_then(value).filter(Value::is_object),
    })
}

/// The value without secrets, in strings and names, and without what can't be stored.
fn masked(value: Value, mask: &Mask) -> Value {
    let value = answerable_core::json::clean(value);
    if !mask.finds_in(&value) {
        return value;
    }
    serde_json::from_str(&mask.text(&value.to_string())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Option<ListedTool> {
        super::listed(&RawValue::from_string(text.to_owned()).expect("JSON"), &Mask::new(["canary"]))
    }

    #[test]
    fn only_a_name_must_make_sense() {
        for odd in ["7", "[]", "{}", r#"{"name":""}"#, r#"{"name":5}"#] {
            assert_eq!(listed(odd), None, "{odd}");
        }
        let deep = format!(r#"{{"name":"a","inputSchema":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(listed(&deep), None, "deeper than any parser goes");
        let odd = listed(r#"{"name":"a","description":5,"title":[],"inputSchema":[1],"annotations":7}"#);
        let odd = odd.expect("a tool");
        assert_eq!((odd.name.as_str(), odd.description.as_str(), odd.title), ("a", "", None));
        assert_eq!((odd.input_schema, odd.annotations), (json!([1]), None));
        assert_eq!(listed(r#"{"name":"a"}"#).map(|tool| tool.input_schema), Some(Value::Null));
    }

    #[test]
    fn secrets_in_a_list_are_masked() {
        let tool =
            listed(r#"{"name":"a","description":"the canary","inputSchema":{"default":"\u0063anary"}}"#);
        let tool = tool.expect("a tool");
        assert_eq!((tool.description.as_str(), tool.input_schema), ("the ***", json!({"default": "***"})));
    }
}
