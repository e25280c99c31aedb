//! What leaves this process, against scripted and real far sides.

mod egress;
mod http;
mod mcp;
mod shell;
mod workspace;
