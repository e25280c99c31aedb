//! What the tests drive the product with: the program itself as a child process, clients that judge every
//! answer, and a scripted world around it.
//!
//! Invariant: nothing of the product is linked in. What a test knows, it knows over HTTP, from the scripted
//! world's side, or from a look into the database.

mod agent;
mod ask;
mod binary;
mod client;
mod laws;
mod legal;
mod matching;
mod process;
pub(crate) mod recorded;
mod run;
mod server;
mod stream;
pub(crate) mod traces;
mod until;
mod world;

pub(crate) use agent::{With, agent, client_tool, rules};
pub(crate) use ask::{Answer, Ask};
pub(crate) use binary::binary;
pub(crate) use client::Client;
pub(crate) use matching::Fits;
pub(crate) use process::Process;
pub(crate) use run::{Run, is_terminal};
pub(crate) use server::Server;
pub(crate) use stream::{EventStream, StreamEvent};
pub(crate) use until::{SOON, away_from_midnight, until};
pub(crate) use world::{World, seconds_from_now};
