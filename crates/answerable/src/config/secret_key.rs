//! The key that encrypts stored secrets.

use std::str::FromStr;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::{ExposeSecret, SecretBox};
use sha2::{Digest, Sha256};

/// Fewest characters of a passphrase.
const SHORTEST_PASSPHRASE: usize = 32;

/// 32 bytes that encrypt the tenants' stored secrets. Debug does not print them.
#[derive(Debug)]
pub struct SecretKey {
    bytes: SecretBox<[u8; 32]>,
    form: KeyForm,
}

/// How the configured text was read as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// 64 hexadecimal digits.
    Hex,
    /// 32 bytes in base64, with the standard or the URL alphabet, padded or not.
    Base64,
    /// Any other text of at least 32 characters: its SHA-256 is the key.
    Passphrase,
}

impl KeyForm {
    /// Words for the log.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Hex => "32 bytes as hex",
            Self::Base64 => "32 bytes as base64",
            Self::Passphrase => "a passphrase, hashed with SHA-256",
        }
    }
}

impl SecretKey {
    /// The key itself.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        self.bytes.expose_secret()
    }

    /// How it was read.
    #[must_use]
    pub fn form(&self) -> KeyForm {
        self.form
    }

    fn new(bytes: [u8; 32], form: KeyForm) -> Self {
        Self { bytes: SecretBox::new(Box::new(bytes)), form }
    }
}

impl FromStr for SecretKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(bytes) = from_hex(text) {
            return Ok(Self::new(bytes, KeyForm::Hex));
        }
        if let Some(bytes) = from_base64(text) {
            return Ok(Self::new(bytes, KeyForm::Base64));
        }
        if text.chars().count() >= SHORTEST_PASSPHRASE {
            return Ok(Self::new(Sha256::digest(text).into(), KeyForm::Passphrase));
        }
        Err("is too weak: give 32 bytes as hex or base64 (openssl rand -hex 32), or a passphrase of at least 32 \
             characters"
            .to_owned())
    }
}

/// Reads keys with commas between them.
pub(crate) fn list(text: &str) -> Result<Vec<SecretKey>, String> {
    let keys = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    keys.map(str::parse).collect::<Result<_, String>>().map_err(|_| {
        "has a key that is too weak: each is 32 bytes as hex or base64, or a passphrase of at least 32 characters; of a \
         passphrase with a comma give the SHA-256 as hex"
            .to_owned()
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

fn from_base64(text: &str) -> Option<[u8; 32]> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    [alphabet::STANDARD, alphabet::URL_SAFE]
        .iter()
        .find_map(|alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).ok())
        .and_then(|bytes| bytes.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_told_by_its_looks() {
        let standard = "/+7/7v/u/+7/7v/u/+7/7v/u/+7/7v/u/+7/7v/u/+4=";
        let table = [
            ("00ff".repeat(16), KeyForm::Hex, Some([0, 0xff])),
            ("00FF".repeat(16), KeyForm::Hex, Some([0, 0xff])),
            (standard.to_owned(), KeyForm::Base64, Some([0xff, 0xee])),
            (
                standard.trim_end_matches('=').replace('/', "_").replace('+', "-"),
                KeyForm::Base64,
                Some([0xff, 0xee]),
            ),
            ("correct horse battery staple, twice".to_owned(), KeyForm::Passphrase, None),
            ("0".repeat(63), KeyForm::Passphrase, None),
        ];
        for (text, form, begins) in table {
            let key: SecretKey = text.parse().expect("valid");
            assert_eq!(key.form(), form, "{text}");
            if let Some(begins) = begins {
                assert_eq!(key.expose()[..2], begins, "{text}");
            }
            assert!(format!("{key:?}").contains("REDACTED"));
        }
    }

    #[test]
    fn several_stand_between_commas() {
        let two = format!("{}, correct horse battery staple, twice,", "00ff".repeat(16));
        assert!(list(&two).expect_err("a passphrase with a comma").contains("SHA-256"));
        let hashed = "00ff".repeat(16);
        let keys = list(&format!("{hashed},  correct horse battery staple twice ,")).expect("two");
        assert_eq!(keys.iter().map(SecretKey::form).collect::<Vec<_>>(), [KeyForm::Hex, KeyForm::Passphrase]);
        let digest = Sha256::digest("a passphrase, with a comma, which is long");
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let whole: SecretKey = "a passphrase, with a comma, which is long".parse().expect("a passphrase");
        assert_eq!(list(&hex).expect("one")[0].expose(), whole.expose(), "as the message says");
        assert!(list("").expect("none").is_empty());
    }

    #[test]
    fn short_ones_are_refused_without_being_repeated() {
        let error = "hunter2".parse::<SecretKey>().expect_err("short");
        assert!(error.contains("too weak") && !error.contains("hunter2"));
    }
}
