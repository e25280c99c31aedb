//! Deliveries out of a real PostgreSQL to receivers on loopback, sound ones and others.

mod answers;
mod many;
mod signed;
mod world;
