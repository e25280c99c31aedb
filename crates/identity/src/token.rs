//! A token as it is written: three parts in base64url, of which the first says how it is signed (RFC 7515, compact form).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::Fault;
use crate::algorithm::Algorithm;

/// Longest token, in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// Kinds of tokens that are taken, where one is named.
const KINDS: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// A token, of which nothing is believed yet.
#[derive(Debug)]
pub struct Token<'t> {
    pub(crate) algorithm: Algorithm,
    /// Which key it says that it is signed with.
    pub(crate) kid: Option<String>,
    /// What is signed.
    pub(crate) signed: &'t str,
    pub(crate) signature: Vec<u8>,
    /// What it says, as JSON.
    pub(crate) payload: Vec<u8>,
}

/// What is looked at of the first part. Where it names keys by address or brings them along, nobody looks.
#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default)]
    crit: Option<IgnoredAny>,
}

impl<'t> Token<'t> {
    /// Reads a token.
    ///
    /// # Errors
    /// It is none that could be good, whatever it says.
    pub fn read(text: &'t str) -> Result<Self, Fault> {
        if text.len() > MAX_BYTES {
            return Err(Fault::TooLong);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Fault::Unreadable)?;
        let (header, payload) = signed.split_once('.').ok_or(Fault::Unreadable)?;
        // A further dot is in one of the parts then, and not of its alphabet.
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Fault::Unreadable);
        let header: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| Fault::Unreadable)?;
        if header.crit.is_some() {
            return Err(Fault::Critical);
        }
        if header.typ.is_some_and(|kind| !KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known))) {
            return Err(Fault::Kind);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(Fault::Algorithm)?;
        let (signature, payload) = (decoded(signature)?, decoded(payload)?);
        Ok(Self { algorithm, kid: header.kid, signed, signature, payload })
    }
}
