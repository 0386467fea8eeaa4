//! One call of the wrapper, from its command line to its exit code.

use crate::{
    args::CommandLine,
    bypass,
    call::Call,
    error::Error,
    event, exec,
    invocation::Invocation,
    log_line::LogLine,
    runtime::{Target, stdio},
};
use nri_locate::{LoadedConfig, find_runtime};
use std::{io::Write, path::Path};

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

fn attempt(call: &Call, command_line: &CommandLine, log: &LogLine) -> Result<i32, Error> {
    let own = &command_line.own;
    if let Some(flag) = own.without_value {
        return Err(Error::OwnFlag(flag));
    }
    if own.version {
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(std::io::stdout(), "nri-container-runtime version {version}");
        return Ok(0);
    }
    let environment = &call.environment;
    let mut loaded = LoadedConfig::read(own.config.as_deref().map(Path::new), environment);
    let problem = loaded.problem.take();
    let settings = &loaded.config.runtime;
    let runtime = find_runtime(own.runtime.as_deref(), call.base_name(), settings, environment)?;
    let mut target = Target::new(runtime, command_line.forwarded());
    let invocation = Invocation { call, command_line, loaded: &loaded, log };
    match command_line.event_verb() {
        Some(verb) if !bypass::is_set(&invocation) => {
            event::handle(invocation, verb, problem.map(Error::Config), target)
        }
        _ => {
            if command_line.is_exec() {
                exec::adapt(&invocation, &mut target);
            }
            Err(target.exec(call))
        }
    }
}
