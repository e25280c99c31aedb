//! The keys of an issuer (RFC 7517), and which of them a token may be signed with.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Map, Value};

use crate::algorithm::{Algorithm, Curve};
use crate::{Fault, Token};

/// Most keys of one set.
const MAX_KEYS: usize = 64;

/// Keys to verify with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet(Vec<Key>);

/// The text is no set of keys, or none of them is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoKeySet {
    /// No JSON object with `keys`.
    #[error("it is no set of keys")]
    Unreadable,
    /// More than anybody needs.
    #[error("it has too many keys")]
    TooMany,
    /// Nothing that a token could be judged by.
    #[error("it has no key of a kind that is taken")]
    NoneOfUse,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    kid: Option<String>,
    /// The one algorithm that it is for, if it says so.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Point { curve: Curve, bytes: Vec<u8> },
}

impl KeySet {
    /// Reads a set. Keys that are for something else, or of a kind that isn't taken, are passed over.
    ///
    /// # Errors
    /// It is none, or has no key that is of use.
    pub fn read(json: &[u8]) -> Result<Self, NoKeySet> {
        let set: Map<String, Value> = serde_json::from_slice(json).map_err(|_| NoKeySet::Unreadable)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(NoKeySet::Unreadable)?;
        if keys.len() > MAX_KEYS {
            return Err(NoKeySet::TooMany);
        }
        let keys: Vec<Key> = keys.iter().filter_map(Value::as_object).filter_map(Key::read).collect();
        if keys.is_empty() { Err(NoKeySet::NoneOfUse) } else { Ok(Self(keys)) }
    }

    /// Whether a token is signed with one of the keys.
    ///
    /// # Errors
    /// Why it is not.
    pub fn verify(&self, token: &Token<'_>) -> Result<(), Fault> {
        let named: Vec<&Key> = match &token.kid {
            Some(kid) => self.0.iter().filter(|key| key.kid.as_ref() == Some(kid)).collect(),
            None if self.0.len() > 1 => return Err(Fault::NoKey),
            None => self.0.iter().collect(),
        };
        if named.is_empty() {
            return Err(Fault::UnknownKey);
        }
        let mut fault = Fault::Algorithm;
        for key in named.into_iter().filter(|key| key.is_for(token.algorithm)) {
            if key.verifies(token) {
                return Ok(());
            }
            fault = Fault::Signature;
        }
        Err(fault)
    }
}

impl Key {
    fn read(jwk: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        let verifies = |ops: &Vec<Value>| ops.iter().any(|op| op.as_str() == Some("verify"));
        let is_for_signatures =
            text("use").is_none_or(|what| what == "sig") && operations.is_none_or(verifies);
        // Who shows the private part has lost the key.
        if !is_for_signatures || jwk.contains_key("d") {
            return None;
        }
        // One that is for an algorithm that isn't taken is for none.
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::named(name)?),
            None => None,
        };
        let bytes = |name: &str| text(name).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa { n: without_zeros(bytes("n")?), e: without_zeros(bytes("e")?) },
            ("EC", Some("P-256")) => point(Curve::P256, 32, &bytes("x")?, &bytes("y")?)?,
            ("EC", Some("P-384")) => point(Curve::P384, 48, &bytes("x")?, &bytes("y")?)?,
            ("OKP", Some("Ed25519")) => Material::Point { curve: Curve::Ed25519, bytes: bytes("x")? },
            _ => return None,
        };
        Some(Self { kid: text("kid").map(str::to_owned), algorithm, material })
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        let fits = match &self.material {
            Material::Rsa { .. } => algorithm.rsa().is_some(),
            Material::Point { curve, .. } => algorithm.on(*curve).is_some(),
        };
        fits && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn verifies(&self, token: &Token<'_>) -> bool {
        let (message, signature) = (token.signed.as_bytes(), &token.signature);
        match &self.material {
            Material::Rsa { n, e } => token
                .algorithm
                .rsa()
                .is_some_and(|rsa| RsaPublicKeyComponents { n, e }.verify(rsa, message, signature).is_ok()),
            Material::Point { curve, bytes } => token.algorithm.on(*curve).is_some_and(|algorithm| {
                UnparsedPublicKey::new(algorithm, bytes).verify(message, signature).is_ok()
            }),
        }
    }
}

/// A point as it is written whole: both coordinates, of full length.
fn point(curve: Curve, length: usize, x: &[u8], y: &[u8]) -> Option<Material> {
    let is_whole = x.len() == length && y.len() == length;
    is_whole.then(|| Material::Point { curve, bytes: [&[4], x, y].concat() })
}

/// Some issuers write numbers with zeros before them.
fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|byte| *byte == 0).collect()
}
