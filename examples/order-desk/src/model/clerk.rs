//! The clerk: decides what to do next about a letter. One rule after another, no memory: every
//! decision is made anew from what the conversation shows to be done.

use serde_json::{Value, json};

use super::conversation::{Conversation, Outcome};
use super::letter::{Letter, Quantity, Wish};

/// What the model replies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The final answer to the customer.
    Say(String),
    /// Tools to call.
    Call(Vec<ToolCall>),
}

/// A call, its arguments as the text that goes over the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub(super) tool: &'static str,
    pub(super) arguments: String,
}

/// The next reply in a conversation.
pub(super) fn next(conversation: &Conversation) -> Reply {
    let letter = Letter::read(&conversation.letter);
    let decided = match &letter.wish {
        Wish::Order { sku, quantity, by_mail } => order(conversation, &letter.from, sku, quantity, *by_mail),
        Wish::Refund { order_id, amount_cents } => refund(conversation, *order_id, *amount_cents),
        Wish::Questions { sku, order_id } => questions(conversation, sku.as_deref(), *order_id),
    };
    decided.unwrap_or_else(|reply| reply)
}

/// `Err` is a reply that comes before the end: a call to make first, or bad news.
type Decided = Result<Reply, Reply>;

fn order(conversation: &Conversation, from: &str, sku: &str, quantity: &Quantity, by_mail: bool) -> Decided {
    let customer = result_of(conversation, "find_customer", || json!({ "email": from }))?;
    let stock = result_of(conversation, "check_stock", || json!({ "sku": sku }))?;
    if number(stock, "available") < quantity.count {
        return Ok(Reply::Say(format!("I am sorry, {sku} is sold out at the moment.")));
    }
    let wanted = json!({ "customer_id": customer["customer_id"], "sku": sku, "quantity": quantity.count });
    let made = made_order(conversation, &wanted, quantity)?;
    let name = customer["name"].as_str().unwrap_or("customer");
    let answer = format!(
        "Dear {name}, your order {} is placed: {} of {sku} for {} in all.",
        number(made, "order_id"),
        quantity.count,
        money(number(made, "total_cents")),
    );
    if by_mail {
        let mail = || json!({ "to": from, "subject": "Your order", "text": answer });
        result_of(conversation, "send_mail", mail)?;
    }
    Ok(Reply::Say(answer))
}

/// The order, once it is made. A quantity in words goes wrong at first, as models do: the word is
/// put where a number belongs, and what comes back says so.
fn made_order<'a>(
    conversation: &'a Conversation,
    wanted: &Value,
    quantity: &Quantity,
) -> Result<&'a Value, Reply> {
    let first_try = conversation.last("create_order").is_none();
    match &quantity.word {
        Some(word) if first_try => {
            let figure = format!("\"quantity\":{}", quantity.count);
            let slip = wanted.to_string().replace(&figure, &format!("\"quantity\":{word}"));
            Err(Reply::Call(vec![ToolCall { tool: "create_order", arguments: slip }]))
        }
        _ => result_of(conversation, "create_order", || wanted.clone()),
    }
}

fn refund(conversation: &Conversation, order_id: i64, amount_cents: i64) -> Decided {
    result_of(conversation, "find_order", || json!({ "order_id": order_id }))?;
    let reason = "the customer reports damage";
    let wanted = || json!({ "order_id": order_id, "amount_cents": amount_cents, "reason": reason });
    result_of(conversation, "refund", wanted)?;
    Ok(Reply::Say(format!(
        "We are sorry. {} for order {order_id} are on their way back to you.",
        money(amount_cents)
    )))
}

fn questions(conversation: &Conversation, sku: Option<&str>, order_id: Option<i64>) -> Decided {
    if conversation.calls.is_empty() {
        let mut calls = Vec::new();
        calls.extend(sku.map(|sku| call("check_stock", &json!({ "sku": sku }))));
        calls.extend(order_id.map(|id| call("find_order", &json!({ "order_id": id }))));
        if calls.is_empty() {
            return Ok(Reply::Say("Thank you for your letter. What can we do for you?".into()));
        }
        return Ok(Reply::Call(calls));
    }
    let mut answer = Vec::new();
    if let Some(sku) = sku {
        let stock = result_of(conversation, "check_stock", || json!({ "sku": sku }))?;
        answer.push(format!("{} of {sku} are in stock.", number(stock, "available")));
    }
    if let Some(order_id) = order_id {
        let order = result_of(conversation, "find_order", || json!({ "order_id": order_id }))?;
        answer
            .push(format!("Your order {order_id} is {}.", order["state"].as_str().unwrap_or("known to us")));
    }
    Ok(Reply::Say(answer.join(" ")))
}

/// A tool's result; where there is none yet, the call to make; where it went wrong, the bad news.
fn result_of<'a>(
    conversation: &'a Conversation,
    tool: &'static str,
    arguments: impl FnOnce() -> Value,
) -> Result<&'a Value, Reply> {
    match conversation.last(tool) {
        Some(Outcome::Done(result)) => Ok(result),
        Some(Outcome::Not { status, code, .. }) if status == "rejected" && code == "INVALID_ARGUMENTS" => {
            Err(Reply::Call(vec![call(tool, &arguments())]))
        }
        Some(Outcome::Not { status, message, .. }) => Err(Reply::Say(bad_news(tool, status, message))),
        None => Err(Reply::Call(vec![call(tool, &arguments())])),
    }
}

fn bad_news(tool: &str, status: &str, message: &str) -> String {
    match status {
        "denied" => format!("I could not do that: the action {tool} was refused. {message}"),
        "uncertain" => {
            format!("I can't tell yet whether {tool} went through; a colleague will look. {message}")
        }
        _ => format!("I am sorry, {tool} did not work. {message}"),
    }
}

fn call(tool: &'static str, arguments: &Value) -> ToolCall {
    ToolCall { tool, arguments: arguments.to_string() }
}

fn number(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or_default()
}

fn money(cents: i64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}
