//! `nri-container-runtime`: stands in for a low-level OCI runtime, asks `nrid` what should change,
//! and runs the real one.
//!
//! It is as if the real runtime had been called: argv, environment, working directory, descriptors,
//! stdio, signals, exit code and `--log` are its. Verbs that carry no event are a plain `execve`;
//! only `exec` may get a document of its own ([`exec_verb`]). What plugins want, and how the
//! bundle's document is rewritten, is `nrid`'s business: nothing here knows NRI. No async runtime,
//! no argument parser: this program starts at every call of an engine.
//!
//! Start from [`event::handle`] (verbs with an event) and [`args::scan`] (what was typed).

// Rust's own start-up would put /dev/null in place of closed stdio and ignore SIGPIPE before we
// could see what we were given, and the real runtime would inherit both. See `sys`.
#![cfg_attr(not(test), no_main)]
// The test harness has its own entry, so that the program is unused there.
#![cfg_attr(test, allow(dead_code))]

mod args;
mod begin;
mod bypass;
mod call;
mod error;
mod event;
mod exec;
mod exec_args;
mod exec_verb;
mod id;
mod log_line;
mod memory;
mod options;
mod process;
mod resources;
mod signals;
mod spawn;
mod stdio;
mod sys;
mod timestamp;
mod verb;
mod verb_args;

use args::Scanned;
use call::Call;
use error::Error;
use exec::Target;
use log_line::LogLine;
use nri_locate::{LoadedConfig, find_runtime};
use std::{io::Write, path::Path};

/// Does what was asked; returns the exit code where no other program takes over.
fn run(call: &Call) -> i32 {
    stdio::reserve();
    let scanned = args::scan(&call.arguments);
    let log = LogLine::new(&scanned);
    match attempt(call, scanned, &log) {
        Ok(code) => code,
        Err(e) => {
            log.error(&e.to_string());
            1
        }
    }
}

fn attempt(call: &Call, scanned: Scanned, log: &LogLine) -> Result<i32, Error> {
    if let Some(flag) = scanned.own.without_value {
        return Err(Error::OwnFlag(flag));
    }
    if scanned.own.version {
        let _ = writeln!(
            std::io::stdout(),
            "nri-container-runtime version {}",
            env!("CARGO_PKG_VERSION")
        );
        return Ok(0);
    }
    let option = scanned.own.config.as_deref().map(Path::new);
    let mut loaded = LoadedConfig::read(option, &call.environment);
    let option = scanned.own.runtime.as_deref();
    let runtime =
        find_runtime(option, call.base_name(), &loaded.config.runtime, &call.environment)?;
    let mut target = Target::new(runtime, scanned.forwarded());
    match scanned.event_verb() {
        Some(verb) if !bypass::is_set(call, &loaded.config, log) => {
            let problem = loaded.problem.take();
            event::handle(
                event::Event { call, verb, scanned: &scanned, loaded: &loaded, log },
                problem.map(Error::Config),
                target,
            )
        }
        _ => {
            if scanned.is_exec() {
                exec_verb::adapt(call, &scanned, &loaded, log, &mut target);
            }
            Err(target.exec(call))
        }
    }
}
