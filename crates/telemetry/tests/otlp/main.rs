//! Export against a real receiver, over both wires.

mod collector;
mod exact;
mod metrics;
mod outbox;
mod receiver;
mod stopping;
mod world;
