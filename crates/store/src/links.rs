//! Links that decide an approval without a key: signed by the server, good for one approval with one input until it
//! expires.

use answerable_core::Millis;
use answerable_core::id::ApprovalId;
use answerable_core::run::ApprovalRow;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::seal::Sealer;

/// What a link's token says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    /// The link ends then.
    pub(crate) expires_at: Millis,
    signature: [u8; 32],
}

/// The link to an approval.
pub(crate) fn decision_url(
    sealer: &Sealer,
    public_url: &str,
    approval: &ApprovalRow,
    expires_at: Millis,
) -> String {
    let hash = approval.input_hash.as_deref().unwrap_or_default();
    let token = token(sealer, approval.id, hash, expires_at);
    format!("{}/v1/approvals/{}/decision?token={token}", public_url.trim_end_matches('/'), approval.id)
}

/// `EXPIRES.MAC`, the moment in the clear.
fn token(sealer: &Sealer, approval: ApprovalId, input_hash: &str, expires_at: Millis) -> String {
    let mac = mac(sealer.link_key(), approval, input_hash, expires_at).finalize().into_bytes();
    format!("{expires_at}.{}", URL_SAFE_NO_PAD.encode(mac))
}

fn mac(key: &[u8; 32], approval: ApprovalId, input_hash: &str, expires_at: Millis) -> Hmac<Sha256> {
    // HMAC fills a short key up with zeros; so does this.
    let mut filled = [0_u8; 64];
    filled[..32].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&filled.into());
    mac.update(format!("{approval}|{input_hash}|{expires_at}").as_bytes());
    mac
}

/// Reads a token. `None`: no server ever wrote it like that.
pub(crate) fn read(token: &str) -> Option<Token> {
    let (written, signature) = token.split_once('.').filter(|(_, signature)| signature.len() == 43)?;
    let expires_at: Millis = written.parse().ok()?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?.try_into().ok()?;
    (expires_at.to_string() == written).then_some(Token { expires_at, signature })
}

/// Whether a token is for this approval and input: looked at in constant time, under every configured key.
pub(crate) fn is_ours(sealer: &Sealer, approval: ApprovalId, input_hash: &str, token: &Token) -> bool {
    let signs = |key| mac(key, approval, input_hash, token.expires_at).verify_slice(&token.signature).is_ok();
    sealer.link_keys().any(signs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_token_is_for_one_approval_input_and_time() {
        let (sealer, id) = (Sealer::new(&[7; 32]), ApprovalId(Uuid::from_u128(7)));
        let good = token(&sealer, id, "sha256:ab", 1000);
        let opens = |sealer: &Sealer, id, hash: &str, text: &str| {
            read(text).filter(|token| is_ours(sealer, id, hash, token)).map(|token| token.expires_at)
        };
        assert_eq!(opens(&sealer, id, "sha256:ab", &good), Some(1000));
        assert_eq!(opens(&sealer, ApprovalId(Uuid::from_u128(8)), "sha256:ab", &good), None);
        assert_eq!(opens(&sealer, id, "sha256:ac", &good), None);
        assert_eq!(opens(&sealer, id, "sha256:ab", &good.replace("1000", "2000")), None);
        assert_eq!(opens(&Sealer::new(&[8; 32]), id, "sha256:ab", &good), None);
        for (key, others) in [([8; 32], vec![&[7; 32]]), ([7; 32], vec![&[8; 32]])] {
            assert_eq!(opens(&Sealer::with_others(&key, &others), id, "sha256:ab", &good), Some(1000));
        }
    }

    #[test]
    fn what_no_server_wrote_is_no_token() {
        let good = token(&Sealer::new(&[7; 32]), ApprovalId(Uuid::from_u128(7)), "sha256:ab", 1000);
        assert_eq!(read(&good).map(|token| token.expires_at), Some(1000));
        let odd = [format!("{good}0"), format!("{good}x"), format!("{good}="), format!("0{good}")];
        let short = good[..good.len() - 1].to_owned();
        let others = [format!("+{good}"), "x".into(), String::new(), ".".into(), "1000".into(), short];
        for odd in odd.into_iter().chain(others).chain([format!("1000.{}", "x".repeat(10_000))]) {
            assert_eq!(read(&odd), None, "{odd}");
        }
    }
}
