//! How much of a run's outputs is kept apart.

use answerable_core::run::{MAX_RUN_ARTIFACT_BYTES, MAX_RUN_ARTIFACTS};

/// Artifacts that are kept of a run, with what came with its messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArtifactsKept {
    /// How many.
    pub number: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ArtifactsKept {
    /// Takes room for one more of so many bytes; `false`: there is none.
    pub fn take(&mut self, bytes: u64) -> bool {
        let more = Self { number: self.number + 1, bytes: self.bytes.saturating_add(bytes) };
        let fits = more.number <= MAX_RUN_ARTIFACTS && more.bytes <= MAX_RUN_ARTIFACT_BYTES;
        if fits {
            *self = more;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_ends_with_the_number_or_with_the_bytes() {
        let mut many = ArtifactsKept { number: MAX_RUN_ARTIFACTS - 1, bytes: 0 };
        assert!(many.take(1) && !many.take(1));
        let mut large = ArtifactsKept { number: 1, bytes: MAX_RUN_ARTIFACT_BYTES - 10 };
        assert!(!large.take(11) && large.take(10) && !large.take(1), "{large:?}");
    }
}
