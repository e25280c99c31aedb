//! Keys that sign tokens, and how their public parts are shown (RFC 7517, RFC 7518, RFC 8037).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};

use super::example;

/// A key of an issuer.
#[derive(Debug)]
pub struct SigningKey {
    kid: String,
    pair: Pair,
}

#[derive(Debug)]
enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec { pair: EcdsaKeyPair, curve: &'static str },
    Ed(Ed25519KeyPair),
}

pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decoded(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).expect("base64url")
}

impl SigningKey {
    /// The RSA key that everybody knows. There is but this one.
    #[must_use]
    pub fn rsa(kid: &str) -> Self {
        let [n, e, d, p, q, dp, dq, q_inv] = [
            example::N,
            example::E,
            example::D,
            example::P,
            example::Q,
            example::D_P,
            example::D_Q,
            example::Q_INV,
        ]
        .map(decoded);
        let components = KeyPairComponents {
            public_key: PublicKeyComponents { n, e },
            d,
            p,
            q,
            dP: dp,
            dQ: dq,
            qInv: q_inv,
        };
        let pair = RsaKeyPair::from_components(&components).expect("the RFC's key");
        Self { kid: kid.to_owned(), pair: Pair::Rsa(Box::new(pair)) }
    }

    /// A new key on P-256.
    #[must_use]
    pub fn p256(kid: &str) -> Self {
        Self::ec(kid, &ECDSA_P256_SHA256_FIXED_SIGNING, "P-256")
    }

    /// A new key on P-384.
    #[must_use]
    pub fn p384(kid: &str) -> Self {
        Self::ec(kid, &ECDSA_P384_SHA384_FIXED_SIGNING, "P-384")
    }

    fn ec(kid: &str, algorithm: &'static EcdsaSigningAlgorithm, curve: &'static str) -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("a key");
        Self { kid: kid.to_owned(), pair: Pair::Ec { pair, curve } }
    }

    /// A new Ed25519 key.
    #[must_use]
    pub fn ed25519(kid: &str) -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("a key");
        Self { kid: kid.to_owned(), pair: Pair::Ed(pair) }
    }

    /// Its name.
    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The algorithm that it signs by, unless another is asked for.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec { curve: "P-384", .. } => "ES384",
            Pair::Ec { .. } => "ES256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// Its public part.
    #[must_use]
    pub fn jwk(&self) -> Value {
        let kid = &self.kid;
        match &self.pair {
            Pair::Rsa(_) => json!({"kty": "RSA", "kid": kid, "use": "sig", "n": example::N, "e": example::E}),
            Pair::Ec { pair, curve } => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "kid": kid, "use": "sig", "crv": curve, "x": encoded(x), "y": encoded(y)})
            }
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "kid": kid, "use": "sig", "crv": "Ed25519", "x": encoded(pair.public_key())})
            }
        }
    }

    /// Signs by the algorithm, if the key can do that; else by its own.
    pub(super) fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let padding: &dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message, &mut signature).expect("a signature");
                signature
            }
            Pair::Ec { pair, .. } => pair.sign(&random, message).expect("a signature").as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }
}
