//! Answerable: an agent runtime as a service. This is the one binary: its configuration and commands.

pub mod cli;
pub mod config;
mod failure;
mod server;
pub mod timeline;

pub use failure::Failure;
