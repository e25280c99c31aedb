//! How a command ends when it does not end well.

use std::fmt;

/// A command's bad end: one line for standard error, and the exit status.
#[derive(Debug)]
pub struct Failure {
    message: Option<String>,
    status: u8,
}

impl Failure {
    /// The command was understood and could not be carried out: exit status 1.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: Some(one_line(&message.to_string())), status: 1 }
    }

    /// The configuration or the arguments are wrong: exit status 2, as for a wrong command line.
    pub fn misconfigured(message: impl fmt::Display) -> Self {
        Self { message: Some(one_line(&message.to_string())), status: 2 }
    }

    /// The same, where what was asked could not be found out: exit status 2.
    #[must_use]
    pub fn undecided(self) -> Self {
        Self { status: 2, ..self }
    }

    /// All has been said on standard output; only the exit status is left to give.
    #[must_use]
    pub fn silent(status: u8) -> Self {
        Self { message: None, status }
    }

    /// The process's exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        self.status
    }

    /// What to tell the user, if anything.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl From<crate::config::Invalid> for Failure {
    fn from(invalid: crate::config::Invalid) -> Self {
        Self::misconfigured(invalid)
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(Failure::new("a\n  b\n").message(), Some("a b"));
        assert_eq!(Failure::misconfigured("x").status(), 2);
        assert_eq!(Failure::new("x").undecided().status(), 2);
        assert_eq!(Failure::silent(1).message(), None);
    }
}
