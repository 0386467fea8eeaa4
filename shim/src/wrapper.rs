//! One call of the wrapper, from its command line to its exit code.

use crate::{
    args::{CommandLine, replaced::bytes},
    bypass,
    call::Call,
    error::Error,
    event, exec,
    help::HELP,
    invocation::Invocation,
    log_line::LogLine,
    runtime::{Target, stdio},
};
use nri_locate::{CONFIG_FILE, EncodedSettings, LoadedConfig, find_runtime, named_config_file};
use nri_passthrough::{CallSettings, Sent, published};
use std::{
    ffi::OsStr,
    io::Write,
    mem::MaybeUninit,
    os::{fd::RawFd, unix::ffi::OsStrExt},
    path::Path,
};

/// Handles the call. Returns the exit code, unless the real runtime replaces this process. `sent`
/// is the request of this call if `nri-passthrough` has sent it.
pub(crate) fn run(call: &Call, sent: Option<Sent>) -> i32 {
    stdio::reserve();
    let arguments = bytes(&call.arguments);
    let command_line = CommandLine::scan(&arguments);
    let log = LogLine::new(&command_line);
    match attempt(call, &command_line, &log, sent) {
        Ok(code) => code,
        Err(e) => {
            log.error(&e.to_string());
            1
        }
    }
}

fn attempt(
    call: &Call,
    command_line: &CommandLine<'_>,
    log: &LogLine,
    sent: Option<Sent>,
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
    let environment = &call.environment;
    let find = |settings: &CallSettings<'_>| {
        find_runtime(
            own.nri_runtime.map(OsStr::from_bytes),
            call.base_name(),
            settings,
            environment,
        )
    };
    let config = named_config_file(
        own.nri_config.map(|file| Path::new(OsStr::from_bytes(file))),
        environment,
    );
    let config = config.as_deref();
    let (mut buffer, mut problem) = ([MaybeUninit::uninit(); _], None);
    let made;
    let path = config.unwrap_or(Path::new(CONFIG_FILE)).as_os_str().as_bytes();
    let published = published::read(path, &mut buffer, close)
        .and_then(|settings| find(&settings).ok().map(|runtime| (settings, runtime)));
    let (settings, runtime) = match published {
        Some(published) => published,
        None => {
            let loaded = LoadedConfig::read(config, environment);
            made = EncodedSettings::of(&loaded, environment);
            problem = loaded.problem.map(Error::Config);
            (made.settings(), find(&made.settings())?)
        }
    };
    let mut target = Target::new(runtime, command_line.forwarded());
    let invocation = Invocation { call, command_line, config, settings, log };
    match command_line.event_verb() {
        // A request that was sent is not abandoned: plugins have been called.
        Some(verb) if sent.is_some() || !bypass::is_set(&invocation) => {
            event::handle(invocation, verb, problem, target, sent)
        }
        _ => {
            if command_line.is_exec() {
                exec::adapt(&invocation, &mut target);
            }
            Err(target.exec(call))
        }
    }
}

/// Closes a descriptor that nothing else uses.
fn close(fd: RawFd) {
    // The descriptor is closed even if this fails.
    let _ = nix::unistd::close(fd);
}
