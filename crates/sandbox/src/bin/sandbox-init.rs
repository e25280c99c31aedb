//! Process 1 of the sandboxes that this crate's tests make; the service's own program is that itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    answerable_sandbox::init::if_asked().unwrap_or(ExitCode::from(2))
}
