//! How an answer's body begins: enough for people to see what the endpoint made of a delivery.

use std::time::Duration;

use answerable_tools::Mask;
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

/// Bytes that are kept.
const KEPT: usize = 1024;
/// Time that the body may take once the status is there: that alone decides.
const WITHIN: Duration = Duration::from_secs(1);

/// The first KiB of the body as text, without the secrets of `mask`; what comes later than a second is not waited for.
/// `None`: there is none.
pub(crate) async fn read(mut response: Response, mask: &Mask) -> Option<String> {
    let (deadline, most) = (Instant::now() + WITHIN, KEPT + mask.longest());
    let mut bytes = Vec::new();
    let whole = loop {
        // A stream that never pauses would never let the timer have its turn.
        if bytes.len() >= most || Instant::now() >= deadline {
            break false;
        }
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(piece))) => bytes.extend_from_slice(&piece[..piece.len().min(most - bytes.len())]),
            Ok(Ok(None)) => break true,
            Ok(Err(_)) | Err(_) => break false,
        }
    };
    Some(shown(&bytes, whole, mask)).filter(|text| !text.is_empty())
}

fn shown(bytes: &[u8], whole: bool, mask: &Mask) -> String {
    let text = answerable_core::json::clean_text(&String::from_utf8_lossy(bytes));
    let mut text = mask.text(&text);
    if !whole {
        // It may be half a secret.
        text.truncate(text.len() - mask.open_end(&text));
    }
    text.truncate(text.floor_char_boundary(KEPT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_secret_is_shown() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let mask = Mask::new([secret]);
        assert_eq!(shown(b"ok", true, &mask), "ok");
        assert_eq!(shown(format!("you sent {secret}!").as_bytes(), true, &mask), "you sent ***!");
        assert_eq!(shown(b"you sent whsec_MfKQ9r8GK", false, &mask), "you sent ");
        // Stars are shorter than secrets: wherever the bytes end, what was half a secret comes into what is kept.
        let long = secret.repeat(100);
        for end in secret.len()..=KEPT + mask.longest() {
            let text = shown(&long.as_bytes()[..end], false, &mask);
            assert!(!text.is_empty() && text.chars().all(|shown| shown == '*'), "{end}: {text}");
        }
    }

    #[test]
    fn it_is_text_that_can_be_stored() {
        let mask = Mask::default();
        assert_eq!(shown(b"\0a\xffb", true, &mask), "\u{fffd}a\u{fffd}b");
        let text = shown("\u{20ac}".repeat(400).as_bytes(), true, &mask);
        assert_eq!(text.len(), KEPT - 1, "no character is cut");
    }
}
