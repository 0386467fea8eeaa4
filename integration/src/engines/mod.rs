//! Real container engines with the wrapper as their runtime.
//!
//! `engines/setup.sh` installs engines of several Debian suites side by side; a [`Suite`] is one of
//! them. Each test starts an engine of its own. A [`Host`] is a [`Node`](crate::Node)
//! (configuration, plugins, `nrid`) with a directory for the engine's state and a launcher that the
//! engine uses as its runtime. Start from [`for_each_suite`].

mod containerd;
mod docker;
mod engine;
mod host;
mod podman;
mod rootless;
mod suite;

pub use containerd::Containerd;
pub use docker::Docker;
pub use engine::Engine;
pub use host::Host;
pub use podman::Podman;
pub use rootless::RootlessEngine;
pub use suite::{Suite, for_each_suite, suites};
