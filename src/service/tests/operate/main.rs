//! Tests of a running `nrid`, such as reloads, restarts and refused creations, without engines and
//! low-level runtimes. Most plugins are the examples of the SDK.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: clippy exempts only functions with #[test]"
)]

mod configuration;
mod containers;
mod create;
mod descriptors;
mod doctor;
mod dry_run;
mod external_plugins;
mod files;
mod flood;
mod idle;
mod life;
mod many;
mod missed;
mod mount_sources;
mod node;
mod observed;
mod pods;
mod refused_peers;
mod removed_files;
mod restart;
mod size;
mod sockets;
mod support_bundle;
mod surroundings;
mod updates;
mod validate;
mod views;
mod wire_plugin;
