//! What the model says: it follows from the conversation alone.
//!
//! The first message of a run carries its script: `order-desk item TAG kind=KIND steps=N slot=SLOT`. The model makes N
//! turns with calls and then gives its answer. The token of a call is `TAG/TURN.CALL`, so a call that is made twice, under
//! whatever key, has its token twice.

use serde_json::{Value, json};

use crate::witness::drawn;

/// How a script begins.
pub const OPENING: &str = "order-desk item ";

/// A run's script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Names the run; no two have the same.
    pub tag: String,
    /// What it does, mostly the name of a tool.
    pub kind: String,
    /// Turns with calls.
    pub steps: usize,
    /// What runs of kind `reserve` want; several the same.
    pub slot: String,
}

/// One call of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The call's token.
    pub token: String,
}

impl Script {
    /// The message that carries it.
    #[must_use]
    pub fn message(&self) -> String {
        let Self { tag, kind, steps, slot } = self;
        format!("{OPENING}{tag} kind={kind} steps={steps} slot={slot}")
    }

    fn parse(message: &str) -> Option<Self> {
        let mut words = message.strip_prefix(OPENING)?.split(' ');
        let tag = words.next()?.to_owned();
        let mut field = |name: &str| Some(words.next()?.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        Some(Self { tag, kind: field("kind")?, steps: field("steps")?.parse().ok()?, slot: field("slot")? })
    }

    /// The script of a conversation, which is its last one (a thread has several), and the turns made since.
    pub(super) fn of(messages: &[Value]) -> Option<(Self, usize)> {
        let place = messages.iter().rposition(|message| {
            message["role"] == "user"
                && message["content"].as_str().is_some_and(|text| text.starts_with(OPENING))
        })?;
        let script = Self::parse(messages[place]["content"].as_str()?)?;
        let turns = messages[place..].iter().filter(|message| message["role"] == "assistant").count();
        Some((script, turns))
    }

    /// The calls of a turn, from 0; none: it answers.
    #[must_use]
    pub fn calls(&self, turn: usize) -> Vec<Call> {
        if turn >= self.steps {
            return Vec::new();
        }
        let tools = self.tools(turn);
        let token = |n: usize, tool: &str| match tool {
            "reserve" => self.slot.clone(),
            _ => format!("{}/{turn}.{n}", self.tag),
        };
        let calls = tools.into_iter().enumerate();
        calls.map(|(n, tool)| Call { token: token(n, tool), tool: tool.to_owned() }).collect()
    }

    fn tools(&self, turn: usize) -> Vec<&str> {
        let draw = |what: &str, of: u64| drawn(0, &[what, &self.tag, &turn.to_string()]) % of;
        match self.kind.as_str() {
            "read" if turn.is_multiple_of(2) => vec!["look"],
            "read" => vec!["slow_look"],
            "long" => vec!["look"],
            "mix" => {
                const ANY: [&str; 8] =
                    ["look", "ship", "pay", "note", "slow_ship", "mail", "refund", "confirm"];
                let pick = |what| ANY[usize::try_from(draw(what, 8)).unwrap_or_default()];
                match draw("calls", 4) {
                    0 => vec!["look", pick("first"), "look", pick("second")],
                    _ => vec![pick("first")],
                }
            }
            // What has an effect stands first and last, so that there is something before it and after it.
            kind if turn.is_multiple_of(2) => vec![kind],
            _ => vec!["look"],
        }
    }
}

/// A call's arguments, as JSON text.
pub(super) fn arguments(call: &Call) -> String {
    match call.tool.as_str() {
        "refund" => json!({"token": call.token, "amount": 5}),
        _ => json!({"token": call.token}),
    }
    .to_string()
}
