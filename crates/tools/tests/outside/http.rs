//! Tool calls over HTTP against a scripted far side.

mod answers;
mod lines;
mod meaning;
mod sent;
mod world;
