//! The proof that nothing is lost and nothing done twice: many servers on one database, faults of every kind, and
//! witnesses outside of it all.
//!
//! The judge never believes the service: the clients log what was accepted, the world logs what was done, the stage
//! logs what it broke, and [`oracle`] holds what the API says against these.

pub mod clients;
pub mod faults;
pub mod oracle;
pub mod report;
pub mod rounds;
pub mod stage;
pub mod witness;
pub mod world;
