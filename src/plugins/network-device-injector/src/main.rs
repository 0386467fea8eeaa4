//! An NRI plugin that moves network devices of the host into pods, by annotations of the pods, and
//! back when the pods stop.
//!
//! Annotations and flags are those of the plugin `network-device-injector` of containerd/nri. It is
//! a program of its own, since it needs the capability `CAP_NET_ADMIN`, while `device-injector`,
//! whose network devices the OCI runtime moves, needs none.

mod annotation;
mod namespace;
mod plugin;
mod transfer;

use nri_plugin::flags::{Flags, parse};
use plugin::NetworkDeviceInjector;
use std::process::ExitCode;

/// NRI plugin that moves network devices into pods by annotations.
#[derive(clap::Parser)]
#[command(name = "network-device-injector", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
}

fn main() -> ExitCode {
    let CommandLine { plugin } = parse();
    plugin.builder(NetworkDeviceInjector).main()
}
