//! An NRI plugin that assigns RDT classes and block I/O classes to containers, by the annotations
//! that containerd and CRI-O have for them. With it, the annotations work on engines that do not
//! know them.

mod classes;
mod plugin;

use nri_plugin::flags::{Flags, parse};
use plugin::ResourceClasses;
use std::process::ExitCode;

/// NRI plugin that assigns RDT and block I/O classes by annotations.
#[derive(clap::Parser)]
#[command(name = "resource-classes", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
}

fn main() -> ExitCode {
    let CommandLine { plugin } = parse();
    plugin.builder(ResourceClasses).main()
}
