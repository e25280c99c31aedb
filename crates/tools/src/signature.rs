//! Signatures by Standard Webhooks: who receives a call can tell that it came from here, whole and lately.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// The secret is no `whsec_` followed by base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signing secret is not whsec_ and base64")]
pub struct NotASecret;

/// The value of `webhook-signature`: one signature for each secret, so that a receiver that has the older of two still
/// finds its own. `timestamp` is in seconds since the Unix epoch.
///
/// # Errors
/// A secret that can't be read, or no secret at all.
pub fn sign(secrets: &[SecretString], id: &str, timestamp: i64, body: &[u8]) -> Result<String, NotASecret> {
    if secrets.is_empty() {
        return Err(NotASecret);
    }
    let signed = |secret| sign_with(secret, id, timestamp, body);
    Ok(secrets.iter().map(signed).collect::<Result<Vec<_>, _>>()?.join(" "))
}

fn sign_with(secret: &SecretString, id: &str, timestamp: i64, body: &[u8]) -> Result<String, NotASecret> {
    let key = secret.expose_secret().strip_prefix("whsec_").ok_or(NotASecret)?;
    let key = STANDARD.decode(key).ok().filter(|key| !key.is_empty()).ok_or(NotASecret)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| NotASecret)?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The specification's own example.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn signed(secrets: &[&str]) -> Result<String, NotASecret> {
        let secrets: Vec<SecretString> = secrets.iter().map(|secret| (*secret).into()).collect();
        sign(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#)
    }

    #[test]
    fn the_specifications_example() {
        assert_eq!(signed(&[SECRET]).as_deref(), Ok(SIGNATURE));
    }

    #[test]
    fn each_secret_signs() {
        let both = signed(&["whsec_AAAA", SECRET]).expect("signatures");
        assert_eq!(both.split(' ').count(), 2);
        assert!(both.ends_with(SIGNATURE));
    }

    #[test]
    fn nothing_goes_out_half_signed() {
        for secrets in [&[] as &[&str], &["plain"], &["whsec_"], &["whsec_!"], &[SECRET, "plain"]] {
            assert_eq!(signed(secrets), Err(NotASecret), "{secrets:?}");
        }
    }
}
