//! Real container engines, with the wrapper as their runtime: what tests of all of them share.
//!
//! `engines/setup.sh` installs engines of several Debian suites side by side; a [`Suite`] is one of
//! them. A test starts an engine for itself alone: a [`Host`] is a [`Node`](crate::Node)
//! (configuration, plugins and `nrid` of its own) with a directory for an engine's state, a
//! launcher that engines are given as their runtime, and what is needed to inspect containers from
//! outside. Start from [`for_each_suite`].

mod containerd;
mod docker;
mod engine;
mod host;
mod podman;
mod suite;

pub use containerd::Containerd;
pub use docker::Docker;
pub use engine::Engine;
pub use host::Host;
pub use podman::Podman;
pub use suite::{Suite, for_each_suite, suites};
