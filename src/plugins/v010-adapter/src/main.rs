//! An NRI plugin that calls plugins of NRI v0.1: programs that run once per event, with a request
//! in JSON on stdin and a result in JSON on stdout.
//!
//! Files, requests and flags are those of the plugin `v010-adapter` of containerd/nri.

mod configuration;
mod message;
mod plugin;
mod program;
mod resources;

use nri_plugin::flags::{Flags, parse};
use plugin::Adapter;
use program::SearchPath;
use std::{path::PathBuf, process::ExitCode};

/// NRI plugin that calls plugins of NRI v0.1.
#[derive(clap::Parser)]
#[command(name = "v010-adapter", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
    /// Configuration of NRI v0.1
    #[arg(long, value_name = "PATH", default_value = configuration::DEFAULT_FILE)]
    config: PathBuf,
    /// Directory of programs, which is searched before PATH
    #[arg(long, value_name = "PATH", default_value = program::DEFAULT_DIRECTORY)]
    bin_dir: PathBuf,
}

fn main() -> ExitCode {
    let CommandLine { plugin, config, bin_dir } = parse();
    let search = SearchPath::new(std::env::var_os("PATH"), &bin_dir);
    plugin.builder(Adapter::new(config, search)).main()
}
