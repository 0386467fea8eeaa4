//! An NRI plugin that logs the events it receives, with pods and containers as YAML. It can add an
//! annotation or an environment variable to containers, to see where they arrive.
//!
//! Flags, configuration and the form of the lines are those of the plugin `logger` of
//! containerd/nri.

mod events;
mod settings;

use events::EventLogger;
use nri_plugin::flags::{Flags, parse};
use settings::LoggerSettings;
use std::{io::Write, process::ExitCode};

/// NRI plugin that logs the events it receives.
#[derive(clap::Parser)]
#[command(name = "logger", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
    /// Comma-separated list of events to subscribe to, "pod", "container" or "all" (default: all)
    #[arg(long)]
    events: Option<String>,
    #[command(flatten)]
    settings: LoggerSettings,
}

fn main() -> ExitCode {
    let CommandLine { plugin, events, mut settings } = parse();
    settings.events = events.map(|list| vec![list]);
    match EventLogger::new(settings) {
        Ok(logger) => plugin.builder(logger).main(),
        Err(error) => {
            // Nothing is left to report a failure to.
            let _ = writeln!(std::io::stderr(), "logger: {error}");
            ExitCode::FAILURE
        }
    }
}
