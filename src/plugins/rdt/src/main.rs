//! An NRI plugin that adjusts the RDT settings of containers by annotations of their pods:
//! `linux.intelRdt` of the OCI runtime specification.
//!
//! Annotations and flags are those of the plugin `rdt` of containerd/nri. Classes that a runtime
//! defines are assigned by the plugin `resource-classes`.

mod annotations;
mod plugin;

use nri_plugin::flags::{Flags, parse};
use plugin::Rdt;
use std::process::ExitCode;

/// NRI plugin that adjusts RDT settings of containers by annotations.
#[derive(clap::Parser)]
#[command(name = "rdt", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
}

fn main() -> ExitCode {
    let CommandLine { plugin } = parse();
    plugin.builder(Rdt).main()
}
