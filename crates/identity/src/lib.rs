//! People who act under a name of their own: an OpenID Connect provider vouches for them with a signed token.
//!
//! A token is judged in two pure steps: [`claims`](mod@claims) says who would be vouched for if it were genuine, and
//! [`key_set`](mod@key_set) whether it is. [`Issuer`] keeps the keys: it asks for them in the background and never within a
//! request.
//!
//! Invariant: nothing that a token names is fetched, and which algorithm it is judged by is the key's choice.
//!
//! The signatures are `ring`'s, which TLS needs anyway. A library for whole tokens would bring a second set of cryptography,
//! go by this machine's clock, and read claims in forms that numbers of any precision break.

mod algorithm;
mod claims;
mod fault;
mod fetch;
mod issuer;
mod key_set;
mod token;

pub use claims::{Claims, Rules};
pub use fault::Fault;
pub use fetch::is_safe;
pub use issuer::{Issuer, IssuerConfig};
pub use key_set::{KeySet, NoKeySet};
pub use token::Token;
