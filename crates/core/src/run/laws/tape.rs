//! Choices of a random life, as they come from proptest. When they are used up, all goes well.

/// Choices to be made.
pub(super) struct Tape {
    bytes: Vec<u8>,
    at: usize,
}

impl Tape {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    /// One of `n`; the first where no choice is left.
    pub(super) fn pick(&mut self, n: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % n.max(1)
    }

    /// One of `choices`.
    pub(super) fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.pick(choices.len())].clone()
    }

    /// Once in `n`.
    pub(super) fn rarely(&mut self, n: usize) -> bool {
        self.pick(n) == n - 1
    }
}
