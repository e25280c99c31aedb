//! What it takes to work on a run whose messages are more than text.

use super::state::RunState;

/// Version of the first binary that knows pieces of messages and pins.
pub const VERSION_OF_PARTS: u16 = 3;

impl RunState {
    /// The same of a run that was given messages with pieces or pins, if it was: a binary that doesn't know of them would
    /// leave them out.
    #[must_use]
    pub fn given(self, has_parts: bool) -> Self {
        let version = if has_parts { self.version.max(VERSION_OF_PARTS) } else { self.version };
        Self { version, ..self }
    }
}
