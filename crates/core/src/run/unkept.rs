//! Outputs whose artifacts are not kept: a run has had as many as it may.

use crate::id::ArtifactId;
use crate::run::{CallVerdict, Event};
use crate::tool::{Attempt, Output};

/// Artifacts of one run, with what came with its messages.
pub const MAX_RUN_ARTIFACTS: u64 = 10_000;
/// Bytes of all of them.
pub const MAX_RUN_ARTIFACT_BYTES: u64 = 1 << 30;

const WHY: &str = "the artifacts of this run take all the room there is for them";

impl Event {
    /// The artifacts `gone` are not kept: what names them says so instead.
    pub fn without_artifacts(&mut self, gone: &[ArtifactId]) {
        let output = match self {
            Self::ToolAttempted { outcome: Attempt::Succeeded(output), .. } => Some(output),
            Self::ToolAttempted {
                outcome:
                    Attempt::Refused(_, words) | Attempt::NotDone(_, words, _) | Attempt::Unclear(_, words),
                ..
            } => {
                *words = without(words, gone);
                None
            }
            Self::ToolReconciled { reconciliation, .. } => reconciliation.result.as_mut(),
            Self::ToolResultSubmitted { submitted, .. } => Some(&mut submitted.output),
            Self::ChildEnded { end, .. } => Some(&mut end.output),
            Self::CallDecided { verdict: CallVerdict::Answered(output), .. } => Some(output),
            _ => None,
        };
        if let Some(output) = output {
            output.without_artifacts(gone);
        }
    }
}

impl Output {
    fn without_artifacts(&mut self, gone: &[ArtifactId]) {
        self.content = without(&self.content, gone);
        self.artifact_id = self.artifact_id.filter(|id| !gone.contains(id));
    }
}

fn without(words: &str, gone: &[ArtifactId]) -> String {
    gone.iter().fold(words.to_owned(), |words, id| {
        words
            .replace(&format!("the whole is artifact {id}"), &format!("the whole was not kept, since {WHY}"))
            .replace(&format!("kept as artifact {id}"), &format!("not kept, since {WHY}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::OutputSpec;
    use crate::id::CallId;
    use crate::tool::ErrorCode;
    use uuid::Uuid;

    fn attempted(outcome: Attempt) -> Event {
        Event::ToolAttempted { at: 1, call: CallId(Uuid::nil()), outcome, jitter: 0 }
    }

    fn output(event: &Event) -> &Output {
        match event {
            Event::ToolAttempted { outcome: Attempt::Succeeded(output), .. } => output,
            event => panic!("{event:?}"),
        }
    }

    #[test]
    fn a_head_says_that_the_whole_is_gone() {
        let (id, other) = (ArtifactId(Uuid::from_u128(1)), ArtifactId(Uuid::from_u128(2)));
        let spec = OutputSpec { max_chars: 4, ..OutputSpec::default() };
        let mut event = attempted(Attempt::Succeeded(Output::limited("abcdefgh", &spec, id)));
        event.without_artifacts(&[other]);
        assert_eq!(output(&event).artifact_id, Some(id), "another's end is not its own");
        event.without_artifacts(&[other, id]);
        let output = output(&event);
        assert_eq!((output.artifact_id, output.truncated, output.chars), (None, true, 8));
        assert!(
            output.content.starts_with("abcd\n[cut: 4 of 8 characters shown; the whole was not kept, since")
        );
        assert!(!output.content.contains(&id.to_string()), "{}", output.content);
    }

    #[test]
    fn a_failure_that_names_one_says_so_too() {
        let id = ArtifactId(Uuid::from_u128(1));
        let words = format!("broken [binary output: image/png, 5 bytes, kept as artifact {id}]");
        let mut event = attempted(Attempt::Refused(ErrorCode::Internal, words));
        event.without_artifacts(&[id]);
        let Event::ToolAttempted { outcome: Attempt::Refused(_, words), .. } = event else {
            panic!("refused")
        };
        assert!(words.contains("5 bytes, not kept, since") && !words.contains(&id.to_string()), "{words}");
    }
}
