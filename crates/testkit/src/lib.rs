//! What tests need: a database each, scripted models and tools, the API document's judge.
//!
//! Everything here runs for real and on loopback: a PostgreSQL with the migrations applied, HTTP servers that
//! speak the wires of models, tools, MCP servers and webhook receivers. Tests wait on signals (`reached`, `received`), never
//! on sleeps.
//!
//! Invariant: nothing of the product is known here but its migrations and its API document. The scripted world
//! plays the *other* side, so a fault in the product can't hide in a shared type.

pub mod arrivals;
mod body;
pub mod collector;
pub mod database;
mod hold;
pub mod issuer;
mod lock;
mod loopback;
pub mod mcp;
pub mod model;
pub mod openapi;
pub mod request;
pub mod signature;
pub mod tool;
pub mod webhook;

pub use collector::Collector;
pub use database::TestDatabase;
pub use issuer::{ScriptedIssuer, SigningKey};
pub use mcp::{McpAnswer, McpServer, ScriptedMcp};
pub use model::{ModelReply, ScriptedModel};
pub use openapi::Document;
pub use request::RecordedRequest;
pub use tool::{ScriptedTools, ToolAnswer};
pub use webhook::{HookAnswer, WebhookReceiver};
