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
pub(crate) enum LinkState {
    /// It is the server's own and for this approval and input.
    Valid {
        /// It ends then.
        expires_at: Millis,
    },
    /// It isn't.
    Forged,
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

/// Looks at a token in constant time, under every configured key.
pub(crate) fn verify(sealer: &Sealer, approval: ApprovalId, input_hash: &str, token: &str) -> LinkState {
    let read = token.split_once('.').and_then(|(expires, signature)| {
        Some((expires.parse::<Millis>().ok()?, expires, URL_SAFE_NO_PAD.decode(signature).ok()?))
    });
    let Some((expires_at, written, signature)) = read else { return LinkState::Forged };
    let signs = |key| mac(key, approval, input_hash, expires_at).verify_slice(&signature).is_ok();
    if expires_at.to_string() == written && sealer.link_keys().any(signs) {
        LinkState::Valid { expires_at }
    } else {
        LinkState::Forged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_token_is_for_one_approval_input_and_time() {
        let (sealer, id) = (Sealer::new(&[7; 32]), ApprovalId(Uuid::from_u128(7)));
        let good = token(&sealer, id, "sha256:ab", 1000);
        assert_eq!(verify(&sealer, id, "sha256:ab", &good), LinkState::Valid { expires_at: 1000 });
        let other = ApprovalId(Uuid::from_u128(8));
        assert_eq!(verify(&sealer, other, "sha256:ab", &good), LinkState::Forged);
        assert_eq!(verify(&sealer, id, "sha256:ac", &good), LinkState::Forged);
        assert_eq!(verify(&Sealer::new(&[8; 32]), id, "sha256:ab", &good), LinkState::Forged);
        let valid = LinkState::Valid { expires_at: 1000 };
        for (key, others) in [([8; 32], vec![&[7; 32]]), ([7; 32], vec![&[8; 32]])] {
            assert_eq!(verify(&Sealer::with_others(&key, &others), id, "sha256:ab", &good), valid);
        }
        for odd in [
            format!("{good}0"),
            format!("{good}x"),
            good.replace("1000", "2000"),
            format!("0{good}"),
            "x".into(),
        ] {
            assert_eq!(verify(&sealer, id, "sha256:ab", &odd), LinkState::Forged, "{odd}");
        }
    }
}
