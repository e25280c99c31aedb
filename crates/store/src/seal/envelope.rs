//! The bytes of a sealed value. Form 1: `1, wrap nonce, data nonce, wrapped data key, body`. Form 2 names the wrapping key
//! after its first byte.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};

use super::SealError;
use super::key::{ID, WrappingKeyId};

/// First byte of a form that names no key.
const NAMELESS: u8 = 1;
/// First byte of a form that names its key.
const NAMED: u8 = 2;
pub(super) const NONCE: usize = 12;
/// A data key and its tag.
pub(super) const WRAPPED: usize = 32 + 16;

/// A sealed value in its parts.
pub(super) struct Envelope<'b> {
    pub(super) key_id: Option<WrappingKeyId>,
    pub(super) wrap_nonce: &'b [u8],
    pub(super) data_nonce: &'b [u8],
    pub(super) wrapped: &'b [u8],
    pub(super) body: &'b [u8],
}

impl<'b> Envelope<'b> {
    pub(super) fn parse(sealed: &'b [u8]) -> Result<Self, SealError> {
        let (form, rest) = sealed.split_first().ok_or(SealError)?;
        let (key_id, rest) = match *form {
            NAMELESS => (None, rest),
            NAMED => {
                let (id, rest) = rest.split_first_chunk::<ID>().ok_or(SealError)?;
                (Some(WrappingKeyId(*id)), rest)
            }
            _ => return Err(SealError),
        };
        let (wrap_nonce, rest) = rest.split_at_checked(NONCE).ok_or(SealError)?;
        let (data_nonce, rest) = rest.split_at_checked(NONCE).ok_or(SealError)?;
        let (wrapped, body) = rest.split_at_checked(WRAPPED).ok_or(SealError)?;
        Ok(Self { key_id, wrap_nonce, data_nonce, wrapped, body })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let rest = [self.wrap_nonce, self.data_nonce, self.wrapped, self.body].concat();
        match &self.key_id {
            None => [&[NAMELESS][..], &rest].concat(),
            Some(id) => [&[NAMED][..], &id.0, &rest].concat(),
        }
    }
}

pub(super) fn cipher(key: &[u8; 32]) -> Aes256Gcm {
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))
}

pub(super) fn seal_with(
    cipher: &Aes256Gcm,
    nonce: &[u8],
    msg: &[u8],
    place: &str,
) -> Result<Vec<u8>, SealError> {
    cipher.encrypt(&nonce_of(nonce)?, Payload { msg, aad: place.as_bytes() }).map_err(|_| SealError)
}

pub(super) fn open_with(
    cipher: &Aes256Gcm,
    nonce: &[u8],
    msg: &[u8],
    place: &str,
) -> Result<Vec<u8>, SealError> {
    cipher.decrypt(&nonce_of(nonce)?, Payload { msg, aad: place.as_bytes() }).map_err(|_| SealError)
}

fn nonce_of(bytes: &[u8]) -> Result<Nonce<<Aes256Gcm as aes_gcm::AeadCore>::NonceSize>, SealError> {
    let bytes: [u8; NONCE] = bytes.try_into().map_err(|_| SealError)?;
    Ok(Nonce::from(bytes))
}
