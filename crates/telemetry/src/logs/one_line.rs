//! Fields of lines for people. Some tell what came from outside: nothing of it ends a line or speaks to a terminal.

use std::fmt::{self, Debug, Write as _};

use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Fields as `message name=value …`, all in one line.
pub(super) fn one_line() -> impl for<'w> FormatFields<'w> + 'static {
    debug_fn(write_field).delimited(" ")
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let name = field.name();
    if name != "message" {
        write!(writer, "{}=", name.strip_prefix("r#").unwrap_or(name))?;
    }
    write!(Plain(writer), "{value:?}")
}

/// Writes what would end a line, or be taken for a command by a terminal, as its escape.
struct Plain<'a, 'w>(&'a mut Writer<'w>);

impl fmt::Write for Plain<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(is_odd) {
            let (words, odd) = match piece.chars().next_back().filter(|last| is_odd(*last)) {
                Some(odd) => (&piece[..piece.len() - odd.len_utf8()], Some(odd)),
                None => (piece, None),
            };
            self.0.write_str(words)?;
            if let Some(odd) = odd {
                write!(self.0, "{}", odd.escape_debug())?;
            }
        }
        Ok(())
    }
}

/// Control characters, ends of lines, and what turns the direction of the text around it.
fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
