//! Why a token is not good. Whoever brought it isn't told: it is for the log.

/// Why a token is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Longer than any honest one.
    #[error("it is too long")]
    TooLong,
    /// Not three parts in base64url, or not JSON in them.
    #[error("it can't be read")]
    Unreadable,
    /// A token of another kind, such as one that ends a session.
    #[error("it is a token of another kind")]
    Kind,
    /// It asks for something that isn't understood here.
    #[error("it has critical extensions")]
    Critical,
    /// No algorithm that is taken, or not the key's.
    #[error("its algorithm is not taken, or not the key's")]
    Algorithm,
    /// It names no key, and there are several.
    #[error("it names no key, and there are several")]
    NoKey,
    /// There is no such key.
    #[error("it names a key that isn't known")]
    UnknownKey,
    /// Somebody else signed it, or what was signed.
    #[error("the signature is not the key's")]
    Signature,
    /// Something that it must say is missing or otherwise.
    #[error("its claim {0} is missing or not as it must be")]
    Claim(&'static str),
    /// Its time is over, or has not come.
    #[error("its time is over, or has not come")]
    Time,
}
