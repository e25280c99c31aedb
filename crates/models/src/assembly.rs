//! What a wire makes of the objects that a server sends: pieces of a reply, put together.

use answerable_core::model::{ModelReply, Usage};
use serde_json::Value;

/// A reply that is being put together.
pub(crate) trait Assembly {
    /// Takes an event of a stream; `name` is its `event` field, empty where it has none.
    ///
    /// # Errors
    /// The server gave the reply up, or what it sends is none.
    fn take_event(&mut self, name: &str, object: &Value) -> Result<Told, Broken>;

    /// Takes a whole answer.
    ///
    /// # Errors
    /// As of [`Assembly::take_event`].
    fn take_whole(&mut self, object: &Value) -> Result<(), Broken>;

    /// The server has said that the reply is at its end, so a stream that breaks off now is whole.
    fn has_ended(&self) -> bool;

    /// Tokens as far as the server told them.
    fn usage(&self) -> Option<Usage>;

    /// Tokens of what came so far, estimated: of a reply that breaks off they were taken all the same.
    fn said_tokens(&self) -> u64;

    /// The reply, of which all has come.
    ///
    /// # Errors
    /// It was given up after all.
    fn finish(self) -> Result<ModelReply, Broken>;
}

/// What an event of a stream said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing: it keeps the line open.
    Nothing,
    /// A piece of the reply.
    Piece,
    /// That all has come.
    End,
}

/// Why there is no whole reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Broken {
    /// Its time was up.
    Late(Late),
    /// It ended early, or is no reply at all.
    Cut(&'static str),
    /// The server sent an error instead: the object that tells of it.
    Error(Value),
}

/// Which time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// For the whole reply.
    Whole,
    /// For the first thing that it says.
    First,
    /// For the next thing.
    Next,
}
