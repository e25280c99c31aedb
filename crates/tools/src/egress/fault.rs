//! Why a call came to nothing, as far as matters to who made it.

use std::error::Error;

use super::Refused;

/// Kinds of failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The guard refused the address; nothing was sent.
    Refused(Refused),
    /// There was no connection; nothing was sent.
    NotConnected,
    /// The connection was lost, or what came was no HTTP: nobody knows what the far side did.
    Cut,
}

impl From<&reqwest::Error> for Fault {
    fn from(error: &reqwest::Error) -> Self {
        let mut source = error.source();
        while let Some(inner) = source {
            if let Some(refused) = inner.downcast_ref::<Refused>() {
                return Self::Refused(*refused);
            }
            source = inner.source();
        }
        if error.is_connect() || error.is_builder() { Self::NotConnected } else { Self::Cut }
    }
}

/// What was wrong with TLS, if that kept a connection from coming about: a certificate that isn't trusted, for one.
#[must_use]
pub fn tls_fault(error: &reqwest::Error) -> Option<String> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(fault) = inner.downcast_ref::<rustls::Error>() {
            return Some(fault.to_string());
        }
        // What an I/O error holds is not its source.
        source = match inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(held) => Some(held as &(dyn Error + 'static)),
            None => inner.source(),
        };
    }
    None
}
