//! Sizes of what contexts are made of. Each is counted once, so that a step costs no more the longer its run is.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::id::MessageId;
use crate::message::Message;
use crate::model::ToolOffer;
use crate::registry::Registry;
use crate::tokens::Counter;

/// What surrounds a tool's description on the wire.
const TOOL_FRAME: u64 = 8;

/// Tokens of what every request of an agent has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Its instructions.
    pub instructions: u64,
    /// Its tools.
    pub tools: u64,
    /// What its answers must match.
    pub output_schema: u64,
}

impl Fixed {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.instructions + self.tools + self.output_schema
    }

    fn of(counter: Counter, registry: &Registry) -> Self {
        let spec = &registry.spec;
        let tool = |tool: &ToolOffer| {
            let schema = counter.text(&tool.input_schema.to_string());
            TOOL_FRAME + counter.text(&tool.name) + counter.text(&tool.description) + schema
        };
        Self {
            instructions: counter.text(&spec.instructions),
            tools: registry.offers().iter().map(tool).sum(),
            output_schema: spec.output_schema.as_ref().map_or(0, |schema| counter.text(&schema.to_string())),
        }
    }
}

/// What an agent with its tools shows in any case, by who counts: kept with the agent.
#[derive(Debug, Default)]
pub(crate) struct FixedSizes(Mutex<HashMap<Counter, Fixed>>);

impl FixedSizes {
    /// Those of `registry`, whose they are.
    pub(super) fn of(&self, counter: Counter, registry: &Registry) -> Fixed {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(counter).or_insert_with(|| Fixed::of(counter, registry))
    }
}

/// Sizes of one run's messages.
#[derive(Debug, Default)]
pub struct Sizes {
    messages: Mutex<HashMap<(Counter, MessageId), u64>>,
}

impl Sizes {
    /// Tokens of each message; those that were never seen are counted now.
    pub fn messages(&self, counter: Counter, history: &[Message]) -> Vec<u64> {
        let mut known = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |message: &Message| {
            *known.entry((counter, message.id)).or_insert_with(|| counter.message(message))
        };
        history.iter().map(size).collect()
    }
}
