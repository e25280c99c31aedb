//! The API from outside, asked without a network.

mod held;
mod mcp;
mod parts;
mod policy;
mod routes;
mod runs;
mod settings;
mod strangers;
mod world;
