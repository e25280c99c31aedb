//! Who let calls happen, or not: the gate's verdict on each, and a person's word where one was asked for.

use serde_json::{Value, json};

use crate::id::CallId;
use crate::permission::{Effect, Owner};
use crate::run::{CallVerdict, Event, Record};

/// The gate's verdict.
struct Verdict {
    effect: Effect,
    rule: Option<usize>,
    policy: Option<Owner>,
    version: Option<String>,
}

/// The decisions so far, in the order of their calls.
#[derive(Default)]
pub(super) struct Decisions(Vec<One>);

struct One {
    step: u32,
    call: CallId,
    tool_name: String,
    input_hash: String,
    /// The gate's verdict.
    gate: Option<Verdict>,
    /// Who decided in the end, and why.
    last: Option<(String, String)>,
    word: Option<&'static str>,
    edited: Option<Value>,
    content: Option<String>,
}

impl Decisions {
    /// Takes in a row.
    pub(super) fn note(&mut self, record: &Record, step: u32) {
        match record {
            Record::CallOpened(row) => self.0.push(One {
                step,
                call: row.id,
                tool_name: row.tool_name.clone(),
                input_hash: row.input_hash.clone(),
                gate: None,
                last: None,
                word: None,
                edited: None,
                content: None,
            }),
            Record::CallDecided { call, decision } => {
                if let Some(one) = self.of(*call) {
                    one.gate.get_or_insert_with(|| Verdict {
                        effect: decision.effect,
                        rule: decision.rule,
                        policy: decision.policy,
                        version: decision.policy_version.clone(),
                    });
                    one.last = Some((decision.by.clone(), decision.reason.clone()));
                }
            }
            _ => {}
        }
    }

    /// Takes in what a person said.
    pub(super) fn hear(&mut self, event: &Event) {
        let Event::CallDecided { call, verdict, .. } = event else { return };
        let Some(one) = self.of(*call) else { return };
        match verdict {
            CallVerdict::Approved(approval) => {
                one.word = Some("approve");
                one.edited = approval.edited.as_ref().map(|(input, ..)| input.clone());
            }
            CallVerdict::Denied => one.word = Some("deny"),
            CallVerdict::Answered(output) => {
                one.word = Some("answer");
                one.content = Some(output.content.clone());
            }
        }
    }

    fn of(&mut self, call: CallId) -> Option<&mut One> {
        self.0.iter_mut().rev().find(|one| one.call == call)
    }

    /// One for each call that was decided on.
    pub(super) fn told(&self) -> Vec<Value> {
        self.0.iter().filter_map(One::told).collect()
    }
}

impl One {
    fn told(&self) -> Option<Value> {
        let Verdict { effect, rule, policy, version } = self.gate.as_ref()?;
        let (by, reason) = self.last.as_ref()?;
        let mut told = json!({
            "step": self.step, "tool_name": self.tool_name, "tool_call_id": self.call, "input_hash": self.input_hash,
            "effect": effect, "rule": rule, "policy": policy, "policy_version": version, "by": by, "reason": reason, "decision": self.word,
        });
        if let Some(input) = &self.edited {
            told["input"] = input.clone();
        }
        if let Some(content) = &self.content {
            told["content"] = json!(content);
        }
        Some(told)
    }
}
