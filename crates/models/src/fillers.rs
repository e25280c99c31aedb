//! What is said in a side's place where a vendor wants that it speaks.

/// What the user says where an assistant began.
pub(crate) const BEGINNING: &str = "(The conversation begins.)";
/// What the user says where an assistant spoke last: models that think, and all newer ones, go on with no half answer, and
/// some servers take one for the beginning of the reply.
pub(crate) const GO_ON: &str = "Go on.";
