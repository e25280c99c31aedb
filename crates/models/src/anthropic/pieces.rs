//! A reply, put together from the objects that a server sends.

use std::collections::HashMap;

use answerable_core::model::{Finish, ModelReply, Usage};
use serde_json::Value;

use super::block::Block;
use super::kept;
use super::usage::Counts;
use crate::assembly::{Assembly, Broken, Told};
use crate::bounds;
use crate::words::Words;

/// Most blocks of a reply: citations part a text into many.
const MOST_BLOCKS: usize = 4000;

/// The reply so far.
pub(super) struct Pieces<'s> {
    words: Words<'s>,
    blocks: Vec<Block>,
    /// The block that the next piece under an index belongs to.
    at_index: HashMap<u64, usize>,
    /// The newest block was begun without an index.
    is_unmarked: bool,
    stop_reason: Option<String>,
    counts: Counts,
}

impl<'s> Pieces<'s> {
    pub(super) fn new(words: Words<'s>) -> Self {
        Self {
            words,
            blocks: Vec::new(),
            at_index: HashMap::new(),
            is_unmarked: false,
            stop_reason: None,
            counts: Counts::default(),
        }
    }

    /// A block begins, unless it is only said again that it does.
    fn begin(&mut self, index: Option<u64>, start: &Value) -> Result<(), Broken> {
        let known = index.and_then(|index| self.at_index.get(&index)).map(|at| &self.blocks[*at]);
        if known.is_some_and(|block| block.is_begun_by(start)) {
            return Ok(());
        }
        self.open(index, Block::of(start))
    }

    fn open(&mut self, index: Option<u64>, block: Block) -> Result<(), Broken> {
        if self.blocks.len() == MOST_BLOCKS {
            return Err(Broken::Cut("the reply has too many blocks"));
        }
        if let Block::Text(text) = &block {
            self.words.push(text);
        }
        self.is_unmarked = index.is_none();
        if let Some(index) = index {
            self.at_index.insert(index, self.blocks.len());
        }
        self.blocks.push(block);
        Ok(())
    }

    /// A piece of a block. Two blocks are never spliced into one: what doesn't fit begins one of its own.
    fn grow(&mut self, index: Option<u64>, delta: &Value) -> Result<(), Broken> {
        let last = self.blocks.len().checked_sub(1);
        let marked = index.and_then(|index| self.at_index.get(&index)).copied();
        let at = marked.or(last.filter(|_| index.is_none() || self.is_unmarked));
        let at = at.filter(|at| self.blocks[*at].fits(delta));
        let at = match (at, Block::for_piece(delta)) {
            (Some(at), _) => at,
            (None, Some(block)) => {
                self.open(index, block)?;
                self.blocks.len() - 1
            }
            (None, None) => return Ok(()),
        };
        let text = self.blocks[at].take(delta);
        self.words.push(text);
        Ok(())
    }

    fn stop(&mut self, reason: &Value) {
        if let Some(reason) = reason.as_str().filter(|reason| !reason.is_empty()) {
            self.stop_reason = Some(reason.to_owned());
        }
    }
}

impl Assembly for Pieces<'_> {
    fn take_event(&mut self, name: &str, object: &Value) -> Result<Told, Broken> {
        let index = object["index"].as_u64();
        match object["type"].as_str().unwrap_or(name) {
            "message_start" => {
                self.counts.take_first(&object["message"]["usage"]);
                // The request came in; nothing was said yet.
                return Ok(Told::Nothing);
            }
            "content_block_start" => self.begin(index, &object["content_block"])?,
            "content_block_delta" => self.grow(index, &object["delta"])?,
            "content_block_stop" => {}
            "message_delta" => {
                self.counts.take(&object["usage"]);
                self.stop(&object["delta"]["stop_reason"]);
            }
            "message_stop" => return Ok(Told::End),
            "error" => return Err(Broken::Error(object.clone())),
            _ if !object["error"].is_null() => return Err(Broken::Error(object.clone())),
            // Pings, and events of a later version.
            _ => return Ok(Told::Nothing),
        }
        Ok(Told::Piece)
    }

    fn take_whole(&mut self, object: &Value) -> Result<(), Broken> {
        self.counts.take(&object["usage"]);
        if object["type"] == "error" || !object["error"].is_null() {
            return Err(Broken::Error(object.clone()));
        }
        match &object["content"] {
            Value::Array(blocks) => blocks.iter().try_for_each(|block| self.open(None, Block::of(block)))?,
            Value::String(text) => self.open(None, Block::Text(text.clone()))?,
            Value::Null if object["type"] == "message" => {}
            _ => return Err(Broken::Cut("the answer is no message")),
        }
        self.stop(&object["stop_reason"]);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.stop_reason.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.counts.so_far()
    }

    fn said_tokens(&self) -> u64 {
        self.words.tokens() + self.blocks.iter().map(Block::tokens).sum::<u64>()
    }

    fn finish(self) -> Result<ModelReply, Broken> {
        let finish = finish_of(self.stop_reason.as_deref())?;
        let (text, mask) = self.words.finish();
        let extra = bounds::extra(kept::store(&self.blocks, &text, &mask));
        let calls = self.blocks.into_iter().filter_map(|block| match block {
            Block::Call(call) => Some(call.finish(&mask)),
            _ => None,
        });
        Ok(ModelReply {
            calls: calls.collect(),
            finish,
            finish_reason: self.stop_reason.map(|reason| bounds::finish_reason(&reason, &mask)),
            usage: self.counts.of_whole(),
            extra,
            text,
        })
    }
}

fn finish_of(reason: Option<&str>) -> Result<Finish, Broken> {
    match reason {
        Some("end_turn" | "tool_use" | "stop_sequence" | "stop") => Ok(Finish::Stop),
        Some("max_tokens" | "model_context_window_exceeded" | "length") => Ok(Finish::Length),
        Some("refusal" | "content_filter") => Ok(Finish::Refusal),
        // Only tools that the provider runs itself make a turn so long, and none are offered: it is no answer.
        Some("pause_turn") => Err(Broken::Cut("the provider paused in the middle of its turn")),
        Some("error") => Err(Broken::Cut("the provider gave the reply up")),
        _ => Ok(Finish::Other),
    }
}
