//! The final answer.

use serde_json::Value;

use super::Findings;
use crate::case::AnswerExpected;
use crate::shown;

pub(super) fn check(expected: &AnswerExpected, answer: Option<&str>, findings: &mut Findings) {
    let Some(answer) = answer else {
        findings.add("expect.answer", "an answer", "none");
        return;
    };
    if let Some(whole) = expected.equals.as_ref().filter(|whole| *whole != answer) {
        findings.add("expect.answer.equals", shown::quoted(whole), shown::quoted(answer));
    }
    findings.words("answer.contains", &expected.contains.0, answer, true);
    findings.words("answer.lacks", &expected.lacks.0, answer, false);
    if let Some(pattern) = expected.matches.as_ref().filter(|pattern| !pattern.0.is_match(answer)) {
        findings.add("expect.answer.matches", format!("/{}/", pattern.0), shown::quoted(answer));
    }
    let Some(schema) = &expected.schema else { return };
    match serde_json::from_str::<Value>(answer) {
        Ok(value) => {
            if let Some(misfit) = schema.misfit(&value) {
                let got = format!("{} ({misfit})", shown::json(&value));
                findings.add("expect.answer.schema", "JSON that fits the schema", got);
            }
        }
        Err(_) => findings.add("expect.answer.schema", "JSON", shown::quoted(answer)),
    }
}
