//! Models over HTTP: each wire against servers that are scripted, recorded, or broken.

mod exchanges;
mod faults;
mod fixture;
mod histories;
mod loopback;
mod openai_chat;
mod scripted;
mod support;
mod valid;
