//! The host: listeners of sockets, engines and their own NRI, mount tables, digests of files.
//!
//! `nrid` decides by it whether an engine's own NRI adapts a container; `nrictl` reports it. Each
//! call reads the host again, and blocks.

#![forbid(unsafe_code)]

pub mod containerd;
mod digest;
mod engine;
pub mod mountinfo;
pub mod podman;
mod process;
mod socket;

pub use digest::sha256;
pub use engine::{NriState, RunningEngine, launcher_of, running_engines};
pub use process::{command_name, describe, is_running, version_of};
pub use socket::{listener, listening};
