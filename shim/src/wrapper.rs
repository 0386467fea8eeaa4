//! One call of the wrapper, from its command line to its exit code.

use crate::{
    args::CommandLine,
    bypass,
    call::Call,
    error::Error,
    event, exec,
    help::HELP,
    invocation::Invocation,
    log_line::LogLine,
    runtime::{Target, stdio},
};
use nri_files::CallSettings;
use nri_locate::{CONFIG_FILE, Environment, LoadedConfig, find_runtime, named_config_file};
use std::{ffi::OsStr, io::Write, os::unix::ffi::OsStrExt, path::Path};

/// Handles the call. Returns the exit code, unless the real runtime replaces this process.
pub(crate) fn run(call: &Call) -> i32 {
    stdio::reserve();
    let command_line = CommandLine::scan(&call.arguments);
    let log = LogLine::new(&command_line);
    match attempt(call, &command_line, &log) {
        Ok(code) => code,
        Err(e) => {
            log.error(&e.to_string());
            1
        }
    }
}

fn attempt(call: &Call, command_line: &CommandLine<'_>, log: &LogLine) -> Result<i32, Error> {
    let own = &command_line.flags;
    if let Some(flag) = own.without_value {
        return Err(Error::OwnFlag(flag));
    }
    if own.nri_help {
        // A failed write cannot be reported better than by the missing text.
        let _ = std::io::stdout().write_all(HELP.as_bytes());
        return Ok(0);
    }
    if own.nri_version {
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(std::io::stdout(), "nri-container-runtime version {version}");
        return Ok(0);
    }
    let environment = &call.environment;
    let config = own.nri_config.map(|file| Path::new(OsStr::from_bytes(file)));
    let config = named_config_file(config, environment);
    let find = |settings: &CallSettings| {
        let option = own.nri_runtime.map(OsStr::from_bytes);
        find_runtime(option, call.base_name(), &settings.runtime, environment)
    };
    let mut problem = None;
    let published = CallSettings::read(config.as_deref().unwrap_or(Path::new(CONFIG_FILE)));
    // A runtime may have been moved since the settings were published.
    let found = published.and_then(|settings| find(&settings).ok().zip(Some(settings)));
    let (runtime, settings) = match found {
        Some(found) => found,
        None => {
            let settings;
            (settings, problem) = configured(config.as_deref(), environment);
            (find(&settings)?, settings)
        }
    };
    let mut target = Target::new(runtime, command_line.forwarded());
    let (config, settings) = (config.as_deref(), &settings);
    let invocation = Invocation { call, command_line, config, settings, log };
    match command_line.event_verb() {
        Some(verb) if !bypass::is_set(&invocation) => {
            event::handle(invocation, verb, problem, target)
        }
        _ => {
            if command_line.is_exec() {
                exec::adapt(&invocation, &mut target);
            }
            Err(target.exec(call))
        }
    }
}

/// Reads the configuration. Returns what calls need of it, and why it cannot be used, if so.
#[cold]
fn configured(config: Option<&Path>, environment: &Environment) -> (CallSettings, Option<Error>) {
    let loaded = LoadedConfig::read(config, environment);
    (loaded.call_settings(environment), loaded.problem.map(Error::Config))
}
