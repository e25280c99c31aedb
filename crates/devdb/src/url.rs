//! Connection URLs over the Unix socket.

use std::fmt::Write;

/// A URL of `database` on the socket in `socket_dir`. Port and TLS are named so that no `PG*` variable of
/// the environment changes them.
pub(crate) fn url(socket_dir: &str, database: &str) -> String {
    format!(
        "postgres://postgres@localhost:5432/{}?host={}&sslmode=disable",
        encoded(database),
        encoded(socket_dir)
    )
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_encoded() {
        assert_eq!(
            url("/tmp/a b", "dév"),
            "postgres://postgres@localhost:5432/d%C3%A9v?host=%2Ftmp%2Fa%20b&sslmode=disable"
        );
    }
}
