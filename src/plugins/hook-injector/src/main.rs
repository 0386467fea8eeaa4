//! An NRI plugin that injects OCI hooks into containers: those that oci-hooks(5) defines, in the
//! directories that Podman and CRI-O read, for engines that do not read them.
//!
//! Directories and flags are those of the plugin `hook-injector` of containerd/nri.

mod conditions;
mod definition;
mod directories;
mod plugin;

use nri_plugin::flags::{Flags, parse};
use plugin::HookInjector;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// NRI plugin that injects the OCI hooks of hooks.d into containers.
#[derive(clap::Parser)]
#[command(name = "hook-injector", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
    /// Read the directories once, instead of for each container
    #[arg(long = "disableWatch")]
    disable_watch: bool,
    /// Directory of hooks, in place of the default ones; later ones take precedence
    #[arg(long, value_name = "PATH", default_values = directories::DEFAULT)]
    hooks_dir: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let CommandLine { plugin, disable_watch, hooks_dir } = parse();
    match HookInjector::new(hooks_dir, !disable_watch) {
        Ok(injector) => plugin.builder(injector).main(),
        Err(error) => {
            // Nothing is left to report a failure to.
            let _ = writeln!(std::io::stderr(), "hook-injector: {error}");
            ExitCode::FAILURE
        }
    }
}
