//! The host: listeners of sockets, holders of locks, engines, their own NRI and their containers,
//! digests of files.
//!
//! From these `nrid` decides whether an engine's own NRI handles the engine's containers, and
//! `nrictl` reports the decision. Each call reads the current state of the host, and may block.

#![forbid(unsafe_code)]

mod command_line;
pub mod containerd;
mod daemon_json;
mod digest;
mod docker;
mod engine;
mod isulad;
mod lock;
mod monitors;
pub mod podman;
mod process;
mod socket;
mod user_cgroups;
mod writable;

pub use digest::sha256;
pub use docker::DockerApi;
pub use engine::{NriState, RunningEngine, isulad, launcher_of, running_engines};
pub use lock::{is_own, lock_holder};
pub use monitors::{MonitorGroup, MonitoredContainer, monitor_groups};
pub use process::{command_name, describe, is_alive, is_running, is_stopped, version_of};
pub use socket::{listener, listener_unnoticed, listening};
pub use user_cgroups::{UserControllers, user_controllers};
pub use writable::check_writable;
