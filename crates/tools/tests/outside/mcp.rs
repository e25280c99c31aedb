//! Tools of MCP servers, scripted ones and real ones.

mod bounds;
mod cancelled;
mod content;
mod cuts;
mod listing;
mod meaning;
mod real;
mod sessions;
mod stdio;
mod streams;
mod world;
