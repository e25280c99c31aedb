//! What the tools of a case answer, and what reached them.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::case::{Answer, Body, Case, Outcome, Tools};
use crate::{Traffic, shown};

/// The scripted or recorded tools of one play.
#[derive(Debug, Default)]
pub struct Answers {
    tools: BTreeMap<String, Tool>,
    is_recorded: bool,
}

#[derive(Debug, Default)]
struct Tool {
    slots: Vec<Slot>,
    dedupes: bool,
    /// The first answer to each idempotency key that had an effect.
    by_key: HashMap<String, Answer>,
    /// It is asked what became of calls, by keys that are others each time: its recorded answers are for any input.
    is_lookup: bool,
    traffic: Traffic,
}

/// An answer that is given once.
#[derive(Debug)]
struct Slot {
    answer: Answer,
    /// The only input that it is for.
    input: Option<Value>,
    is_given: bool,
}

/// A request to a tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolRequest<'r> {
    /// The tool.
    pub tool: &'r str,
    /// Its input.
    pub input: &'r Value,
    /// The idempotency key.
    pub key: &'r str,
}

impl Answers {
    /// What a case says; nothing, where its tools are the real ones.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        let mut answers = Self { is_recorded: matches!(case.tools, Tools::Recorded(_)), ..Self::default() };
        match &case.tools {
            Tools::Scripted(scripts) => {
                for (name, script) in scripts {
                    let slots = script.answers.iter().map(|answer| Slot::new(answer.clone(), None)).collect();
                    let tool = Tool { slots, dedupes: script.dedupe, ..Tool::default() };
                    answers.tools.insert(name.clone(), tool);
                }
            }
            Tools::Recorded(calls) => {
                for call in calls.iter().filter(|call| call.outcome != Outcome::Answered) {
                    let tool = answers.tools.entry(call.tool_name.clone()).or_default();
                    tool.is_lookup = case.lookups().any(|name| name == call.tool_name);
                    tool.slots.push(Slot::new(call.answer(), Some(call.input.clone())));
                }
            }
            Tools::Live => {}
        }
        answers
    }

    /// Takes a request, makes its effect and picks its answer.
    ///
    /// # Errors
    /// The case has none for it: what is wrong.
    pub fn take(&mut self, request: ToolRequest<'_>) -> Result<Answer, String> {
        let is_recorded = self.is_recorded;
        let tool = self.tools.entry(request.tool.to_owned()).or_default();
        tool.traffic.requests += 1;
        let known = tool.by_key.get(request.key).filter(|_| tool.dedupes && !request.key.is_empty());
        if let Some(known) = known {
            return Ok(known.clone().again());
        }
        let answer = match (is_recorded, tool.slots.is_empty()) {
            (true, _) => tool.recorded(request).cloned(),
            (false, false) => tool.scripted(request).cloned(),
            // The case says nothing of it.
            (false, true) => Some(Answer::usual()),
        };
        let Some(answer) = answer else {
            let source = if is_recorded { "was not recorded" } else { "has no answer in the case" };
            return Err(format!("the call {} {} {source}", request.tool, shown::json(request.input)));
        };
        if answer.applies() {
            tool.traffic.effects += 1;
            tool.by_key.insert(request.key.to_owned(), answer.clone());
        }
        Ok(answer)
    }

    /// What reached each tool so far.
    #[must_use]
    pub fn traffic(&self) -> BTreeMap<String, Traffic> {
        self.tools.iter().map(|(name, tool)| (name.clone(), tool.traffic)).collect()
    }
}

impl Tool {
    /// The first answer for such an input that is not given yet, else the last one for it once more.
    fn scripted(&mut self, request: ToolRequest<'_>) -> Option<&Answer> {
        let fits = |slot: &Slot| slot.answer.is_for(request.input);
        let fresh = self.slots.iter().position(|slot| !slot.is_given && fits(slot));
        let at = fresh.or_else(|| self.slots.iter().rposition(fits))?;
        Some(self.slots[at].give())
    }

    /// The next answer that was given to this input; to any, where its tool is asked what became of calls.
    fn recorded(&mut self, request: ToolRequest<'_>) -> Option<&Answer> {
        let same = |slot: &Slot| !slot.is_given && slot.input.as_ref() == Some(request.input);
        let any = |slot: &Slot| !slot.is_given && self.is_lookup;
        let at = self.slots.iter().position(same).or_else(|| self.slots.iter().position(any))?;
        Some(self.slots[at].give())
    }
}

impl Slot {
    fn new(answer: Answer, input: Option<Value>) -> Self {
        Self { answer, input, is_given: false }
    }

    fn give(&mut self) -> &Answer {
        self.is_given = true;
        &self.answer
    }
}

/// What is sent where a case has no answer: the call fails, and nothing is sent again.
#[must_use]
pub fn unknown_call(trouble: &str) -> Answer {
    Answer::of(404, Body::Json(serde_json::json!({"error": trouble})))
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
