//! Whether a request has left: one that has not can be called back, and then surely never leaves.

use std::sync::atomic::{AtomicU8, Ordering};

const INSIDE: u8 = 0;
const LEFT: u8 = 1;
const CALLED_BACK: u8 = 2;

/// The door through which one call's requests leave.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU8);

impl Gate {
    /// A request is about to leave; `false`: it was called back and must not.
    pub(crate) fn leave(&self) -> bool {
        let before = self.0.compare_exchange(INSIDE, LEFT, Ordering::SeqCst, Ordering::SeqCst);
        before != Err(CALLED_BACK)
    }

    /// A request has left, or is about to.
    pub(crate) fn has_left(&self) -> bool {
        self.0.load(Ordering::SeqCst) == LEFT
    }

    /// Calls the request back; `false`: it has left.
    pub(crate) fn call_back(&self) -> bool {
        let before = self.0.compare_exchange(INSIDE, CALLED_BACK, Ordering::SeqCst, Ordering::SeqCst);
        before != Err(LEFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_leaves_or_is_called_back() {
        let left = Gate::default();
        assert!(!left.has_left());
        assert!(left.leave() && left.leave(), "a second request of the same call");
        assert!(!left.call_back() && left.has_left());
        let back = Gate::default();
        assert!(back.call_back() && back.call_back());
        assert!(!back.leave() && !back.has_left());
    }
}
