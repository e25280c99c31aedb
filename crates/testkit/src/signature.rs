//! Checks of Standard Webhooks signatures, as a receiver does them.

use std::time::UNIX_EPOCH;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::request::RecordedRequest;

/// How far the timestamp may be from the receiver's clock, in seconds.
const TOLERANCE_S: u64 = 300;

/// What is wrong with a signed request.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignatureFault {
    /// A header of Standard Webhooks is not there.
    #[error("there is no {0} header")]
    Missing(&'static str),
    /// The timestamp is no number of seconds near the present.
    #[error("the timestamp is {0:?}")]
    Timestamp(String),
    /// The secret is no `whsec_` and base64.
    #[error("the secret is no whsec_ secret")]
    Secret,
    /// None of the signatures is right.
    #[error("no signature is right")]
    Wrong,
}

/// Verifies that `request` was signed with `secret` (`whsec_…`) and lately. Serves webhooks and tool calls.
///
/// # Errors
/// The first fault found.
pub fn verify(request: &RecordedRequest, secret: &str) -> Result<(), SignatureFault> {
    let header = |name: &'static str| request.header(name).ok_or(SignatureFault::Missing(name));
    let (id, timestamp) = (header("webhook-id")?, header("webhook-timestamp")?);
    let signatures = header("webhook-signature")?;
    let here = request.wall_time.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let there: Option<u64> = timestamp.parse().ok();
    if there.is_none_or(|there| there.abs_diff(here) > TOLERANCE_S) {
        return Err(SignatureFault::Timestamp(timestamp.to_owned()));
    }
    let mac = mac(secret, &[id.as_bytes(), timestamp.as_bytes(), &request.body])?;
    let is_right = |signature: &str| {
        let bytes = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        bytes.is_some_and(|bytes| mac.clone().verify_slice(&bytes).is_ok())
    };
    if signatures.split(' ').any(is_right) { Ok(()) } else { Err(SignatureFault::Wrong) }
}

fn mac(secret: &str, parts: &[&[u8]]) -> Result<Hmac<Sha256>, SignatureFault> {
    let key = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    let key = key.filter(|key| !key.is_empty()).ok_or(SignatureFault::Secret)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| SignatureFault::Secret)?;
    mac.update(&parts.join(&b'.'));
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use axum::body::Bytes;

    use super::*;

    // The specification's own example.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn request(signature: &str) -> RecordedRequest {
        let headers = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", signature),
        ];
        RecordedRequest {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            query: vec![],
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Bytes::from_static(b"{\"test\": 2432232314}"),
            at: Instant::now(),
            wall_time: UNIX_EPOCH + Duration::from_secs(1_614_265_330),
        }
    }

    #[test]
    fn the_right_signature_among_several_is_found() {
        assert_eq!(verify(&request(SIGNATURE), SECRET), Ok(()));
        assert_eq!(verify(&request(&format!("v1,AAAA {SIGNATURE}")), SECRET), Ok(()));
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(verify(&request("v1,AAAA"), SECRET), Err(SignatureFault::Wrong));
        assert_eq!(verify(&request(SIGNATURE), "plain"), Err(SignatureFault::Secret));
        let mut changed = request(SIGNATURE);
        changed.body = Bytes::from_static(b"{}");
        assert_eq!(verify(&changed, SECRET), Err(SignatureFault::Wrong));
        changed.wall_time += Duration::from_secs(TOLERANCE_S + 1);
        assert_eq!(verify(&changed, SECRET), Err(SignatureFault::Timestamp("1614265330".to_owned())));
        changed.headers.clear();
        assert_eq!(verify(&changed, SECRET), Err(SignatureFault::Missing("webhook-id")));
    }
}
