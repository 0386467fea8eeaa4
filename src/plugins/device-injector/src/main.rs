//! An NRI plugin that injects devices, CDI devices, mounts and network devices into containers, and
//! sets I/O priority, scheduling, sysctls and memory policy, by annotations of their pods.
//!
//! Annotations and flags are those of the plugin `device-injector` of containerd/nri.

mod annotations;
#[cfg(test)]
mod examples;
mod inject;
mod plugin;
mod process;
mod text;

use nri_plugin::flags::{Flags, parse};
use plugin::DeviceInjector;
use std::process::ExitCode;

/// NRI plugin that injects devices and mounts into containers by annotations.
#[derive(clap::Parser)]
#[command(name = "device-injector", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
}

fn main() -> ExitCode {
    let CommandLine { plugin } = parse();
    plugin.builder(DeviceInjector).main()
}
