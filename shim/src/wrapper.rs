//! One call of the wrapper, from its command line to its exit code.
//!
//! A call that is passed through takes the shortest way: the command line, the settings that `nrid`
//! has published (`nri_files::PublishedSettings`), and the real runtime, which replaces this
//! process. Other calls read more: `exec` looks for a marker with changes of plugins and limits
//! ([`exec`]), and verbs with an event go to `nrid` ([`event`]).

use crate::{
    answers::answers,
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
use nri_files::{CallSettings, PublishedSettings};
use nri_locate::{CONFIG_FILE, Environment, LoadedConfig, find_runtime, named_config_file};
use std::{
    ffi::OsStr,
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Handles the call. Returns the exit code, unless the real runtime replaces this process.
pub(crate) fn run(call: &Call) -> i32 {
    let command_line = CommandLine::scan(&call.arguments);
    let config = named_config(call, &command_line);
    let option = command_line.flags.nri_runtime.map(OsStr::from_bytes);
    let find = |settings: &_| find_runtime(option, call.base_name(), settings, &call.environment);
    let published = PublishedSettings::read(config.as_deref().unwrap_or(Path::new(CONFIG_FILE)));
    if let Some(published) = &published
        && command_line.is_passed_through()
        && let Ok(runtime) = find(published.runtime())
    {
        let _ = Target::new(runtime, command_line.forwarded()).exec(call);
    }
    with_settings(call, &command_line, config.as_deref(), published)
}

/// Handles a call that needs more than the runtime, or whose runtime was not executed. Such calls
/// are no part of [`run`], so that the others do not load it.
#[cold]
#[inline(never)]
fn with_settings(
    call: &Call,
    command_line: &CommandLine<'_>,
    config: Option<&Path>,
    published: Option<PublishedSettings>,
) -> i32 {
    stdio::reserve();
    let log = LogLine::new(command_line);
    match attempt(call, command_line, config, published, &log) {
        Ok(code) => code,
        Err(e) => {
            log.error(&e.to_string());
            e.exit_code()
        }
    }
}

fn attempt(
    call: &Call,
    command_line: &CommandLine<'_>,
    config: Option<&Path>,
    published: Option<PublishedSettings>,
    log: &LogLine,
) -> Result<i32, Error> {
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
    let option = own.nri_runtime.map(OsStr::from_bytes);
    let find = |settings: &CallSettings| {
        find_runtime(option, call.base_name(), &settings.runtime, &call.environment)
    };
    let mut problem = None;
    // A runtime may have been moved since the settings were published.
    let found = published
        .and_then(PublishedSettings::all)
        .and_then(|settings| find(&settings).ok().zip(Some(settings)));
    let (runtime, settings) = match found {
        Some(found) => found,
        None => {
            let settings;
            (settings, problem) = configured(config, &call.environment);
            (find(&settings)?, settings)
        }
    };
    let mut target = Target::new(runtime, command_line.forwarded());
    let settings = &settings;
    let invocation = Invocation { call, command_line, config, settings, log };
    match command_line.event_verb() {
        Some(verb) if !bypass::is_set(&invocation) => {
            event::handle(invocation, verb, problem, target)
        }
        _ => {
            if command_line.execs_other_process() {
                exec::adapt(&invocation, &mut target)?;
            }
            Err(target.exec(call))
        }
    }
}

/// Returns the absolute path of the configuration file that the call names.
fn named_config(call: &Call, command_line: &CommandLine<'_>) -> Option<PathBuf> {
    let option = command_line.flags.nri_config.map(|file| Path::new(OsStr::from_bytes(file)));
    named_config_file(option, &call.environment)
}

/// Reads the configuration. Returns what calls need of it, and why it cannot be used, if so.
fn configured(config: Option<&Path>, environment: &Environment) -> (CallSettings, Option<Error>) {
    let loaded = LoadedConfig::read(config, environment, answers);
    (loaded.call_settings(environment), loaded.problem.map(Error::Config))
}
