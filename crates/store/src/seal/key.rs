//! A configured key, and what is derived from it.

use std::fmt;

use aes_gcm::Aes256Gcm;
use sha2::{Digest, Sha256};

use super::envelope::cipher;

/// Bytes of an id.
pub(super) const ID: usize = 8;

/// Tells configured keys apart, and tells nothing of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WrappingKeyId(pub(super) [u8; ID]);

impl fmt::Display for WrappingKeyId {
    /// As sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A key that wraps data keys.
pub(super) struct WrappingKey {
    pub(super) id: WrappingKeyId,
    pub(super) cipher: Aes256Gcm,
    /// The key that signs decision links.
    pub(super) links: Box<[u8; 32]>,
}

impl WrappingKey {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let mut id = [0_u8; ID];
        id.copy_from_slice(&derived("answerable wrapping key id", key)[..ID]);
        let links = Box::new(derived("answerable decision links", key));
        Self { id: WrappingKeyId(id), cipher: cipher(key), links }
    }
}

fn derived(purpose: &str, key: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(purpose).chain_update(key).finalize().into()
}
