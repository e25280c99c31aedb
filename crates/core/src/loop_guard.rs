//! The loop guard: is this still progress? (contract, "Behaviours decided" 2)

use serde::{Deserialize, Serialize};

use crate::agent::LoopGuardSpec;
use crate::tool::ErrorCode;

/// Longest cycle of calls that is looked for.
const MAX_CYCLE: usize = 4;
/// Most repetitions that an agent may ask for, so that the memory is bounded.
pub const MAX_REPEATS: u32 = 100;

/// What it remembers: the last calls, and the row of failures of each tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopGuard {
    /// Hashes of (tool, input, result), the newest last.
    recent: Vec<String>,
    /// The row of equal failures by tool.
    rows: Vec<ErrorRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ErrorRow {
    tool_name: String,
    error_code: ErrorCode,
    times: u32,
}

/// A call with its result.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Tool.
    pub tool_name: &'a str,
    /// Hash of the input.
    pub input_hash: &'a str,
    /// Hash of the result as the model sees it.
    pub result_hash: &'a str,
    /// Why it failed; `None` if it succeeded.
    pub error_code: Option<ErrorCode>,
    /// The tool may be called alike again and again.
    pub may_repeat: bool,
}

/// What it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// `repeated_tool_call`.
    Calls,
    /// `same_error_repeated`.
    Errors,
}

impl LoopGuard {
    /// Takes note of a call, and says whether the run goes round in circles. A cycle goes before a repeated error.
    pub fn note(&mut self, spec: &LoopGuardSpec, seen: &Seen<'_>) -> Option<Loop> {
        let errors = self.note_error(spec, seen);
        let calls = !seen.may_repeat && self.note_call(spec, seen);
        if calls { Some(Loop::Calls) } else { errors.then_some(Loop::Errors) }
    }

    fn note_call(&mut self, spec: &LoopGuardSpec, seen: &Seen<'_>) -> bool {
        let whole = format!("{}\n{}\n{}", seen.tool_name, seen.input_hash, seen.result_hash);
        // Sixteen bytes of a hash tell calls apart well enough and keep the state small.
        self.recent.push(crate::json::sha256_hex(whole.as_bytes())[7..39].to_owned());
        let repeats = spec.max_repeated_calls.clamp(1, MAX_REPEATS) as usize;
        let kept = repeats * MAX_CYCLE;
        if self.recent.len() > kept {
            self.recent.drain(..self.recent.len() - kept);
        }
        (1..=MAX_CYCLE).any(|length| self.ends_with_cycle(length, repeats))
    }

    fn ends_with_cycle(&self, length: usize, repeats: usize) -> bool {
        let needed = length * repeats;
        let Some(start) = self.recent.len().checked_sub(needed) else { return false };
        let tail = &self.recent[start..];
        tail.iter().enumerate().all(|(i, call)| *call == tail[i % length])
    }

    fn note_error(&mut self, spec: &LoopGuardSpec, seen: &Seen<'_>) -> bool {
        let row = self.rows.iter_mut().find(|row| row.tool_name == seen.tool_name);
        match (seen.error_code, row) {
            (None, _) => {
                self.rows.retain(|row| row.tool_name != seen.tool_name);
                false
            }
            (Some(error_code), Some(row)) => {
                row.times = if row.error_code == error_code { row.times + 1 } else { 1 };
                row.error_code = error_code;
                row.times >= spec.max_repeated_errors.max(1)
            }
            (Some(error_code), None) => {
                self.rows.push(ErrorRow { tool_name: seen.tool_name.to_owned(), error_code, times: 1 });
                spec.max_repeated_errors <= 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `calls` of the form "tool input result [error]", says after which (from 1) a loop was found.
    fn play(spec: &LoopGuardSpec, calls: &[&str]) -> Option<(usize, Loop)> {
        let mut guard = LoopGuard::default();
        for (i, call) in calls.iter().enumerate() {
            let words: Vec<&str> = call.split(' ').collect();
            let error_code = match words.get(3) {
                Some(&"404") => Some(ErrorCode::NotFound),
                Some(_) => Some(ErrorCode::Conflict),
                None => None,
            };
            let seen = Seen {
                tool_name: words[0],
                input_hash: words[1],
                result_hash: words[2],
                error_code,
                may_repeat: words[0] == "poll",
            };
            if let Some(found) = guard.note(spec, &seen) {
                return Some((i + 1, found));
            }
        }
        None
    }

    #[test]
    fn cycles_of_one_to_four_calls() {
        let three = LoopGuardSpec::default();
        let two = LoopGuardSpec { max_repeated_calls: 2, max_repeated_errors: 3 };
        assert_eq!(play(&three, &["a 1 x", "a 1 x", "a 1 x"]), Some((3, Loop::Calls)));
        assert_eq!(
            play(&three, &["a 1 x", "b 1 y", "a 1 x", "b 1 y", "a 1 x", "b 1 y"]),
            Some((6, Loop::Calls))
        );
        let four = ["a 0 x", "a 1 x", "b 1 x", "c 1 x", "a 2 x", "a 1 x", "b 1 x", "c 1 x", "a 2 x"];
        assert_eq!(play(&two, &four), Some((9, Loop::Calls)));
        assert_eq!(play(&three, &["a 1 x", "a 1 y", "a 1 x", "a 1 x", "a 2 x"]), None);
        assert_eq!(play(&three, &["poll 1 x"; 9]), None);
    }

    #[test]
    fn the_same_error_whatever_the_input() {
        let spec = LoopGuardSpec::default();
        assert_eq!(play(&spec, &["a 1 x 404", "a 2 x 404", "a 3 x 404"]), Some((3, Loop::Errors)));
        assert_eq!(
            play(&spec, &["a 1 x 404", "b 1 y", "a 1 z 404", "b 2 y", "a 2 x 404"]),
            Some((5, Loop::Errors))
        );
        assert_eq!(play(&spec, &["a 1 x 404", "a 2 x 404", "a 3 x 409", "a 4 x 404", "a 5 y 404"]), None);
        assert_eq!(play(&spec, &["a 1 x 404", "a 2 x 404", "a 3 y", "a 4 x 404", "a 5 x 404"]), None);
        assert_eq!(play(&spec, &["a 1 x 404", "a 1 x 404", "a 1 x 404"]), Some((3, Loop::Calls)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut guard = LoopGuard::default();
        for i in 0..1000 {
            let hash = i.to_string();
            let seen = Seen {
                tool_name: "a",
                input_hash: &hash,
                result_hash: "x",
                error_code: None,
                may_repeat: false,
            };
            guard.note(&LoopGuardSpec::default(), &seen);
        }
        assert_eq!(guard.recent.len(), 12);
    }
}
