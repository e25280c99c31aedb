//! The terminal: plain lines, coloured where a person is looking.

use std::io::{IsTerminal, Write};

/// What a line is about, and so its colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Title,
    Plain,
    Quiet,
    Good,
    Careful,
    Bad,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Title => "1;36",
            Self::Plain => "0",
            Self::Quiet => "2",
            Self::Good => "32",
            Self::Careful => "33",
            Self::Bad => "31",
        }
    }
}

/// Where the demo shows itself.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    colour: bool,
}

impl Screen {
    /// Standard output; coloured if it is a terminal and `NO_COLOR` isn't set.
    pub(super) fn of_this_terminal() -> Self {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: std::io::stdout().is_terminal() && !dumb && !asked_not_to }
    }

    /// A heading.
    pub(super) fn title(&self, text: &str) {
        self.plain("");
        self.line(
            Tone::Title,
            &format!("── {text} {}", "─".repeat(76_usize.saturating_sub(text.chars().count()))),
        );
    }

    /// A line.
    pub(super) fn line(&self, tone: Tone, text: &str) {
        self.plain(&self.paint(tone, text));
    }

    /// A text as it is.
    pub(super) fn plain(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // Nobody reads any more: the demo still has its work and its exit status.
        let _ = writeln!(out, "{text}");
        let _ = out.flush();
    }

    /// A text in a tone's colour.
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colour && tone != Tone::Plain {
            format!("\x1b[{}m{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }

    /// Says what is being waited for, and when it is there, how long that took.
    pub(super) async fn during<T, E>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let begun = std::time::Instant::now();
        {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, "  {what} … ");
            let _ = out.flush();
        }
        let done = work.await;
        let seconds = begun.elapsed().as_secs_f64();
        match &done {
            Ok(_) => self.plain(&self.paint(Tone::Good, &format!("ready after {seconds:.1} s"))),
            Err(_) => self.plain(&self.paint(Tone::Bad, &format!("failed after {seconds:.1} s"))),
        }
        done
    }
}
