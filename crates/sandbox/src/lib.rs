//! Runs a shell command over a folder, confined: it sees that folder, the machine's programs read-only, and nothing else.
//!
//! What confines it, from the outside in:
//! - an account without rights, where the server is root ([`account`]);
//! - bubblewrap: namespaces of its own for users, processes, network, mounts, IPC and host name, no capabilities, no
//!   environment, no new privileges ([`bubblewrap`]);
//! - seccomp, loaded by bubblewrap ([`seccomp`]);
//! - Landlock and the limits of each process, set by [`init`], a part of this program that is process 1 within and
//!   starts the shell;
//! - what only somebody outside can see: memory and disk of all processes together, time and output ([`supervise`]).
//!
//! Invariants: nothing runs where [`Sandbox::probe`] would fail, or before its processes can be watched and ended; when a
//! command's end is told, all its processes are gone; they go with the server too, however it dies.

mod account;
mod bubblewrap;
mod folder;
pub mod init;
mod kept;
mod limits;
mod probe;
mod sandbox;
mod seccomp;
mod supervise;
mod usage;

pub use folder::{Folder, Found, FoundFile, Skipped, Stamp};
pub use kept::Kept;
pub use limits::Limits;
pub use probe::{Landlock, Layers, Unusable};
pub use sandbox::{Ended, Fault, Order, Place, Sandbox, Settings};
pub use supervise::{How, Stop};
