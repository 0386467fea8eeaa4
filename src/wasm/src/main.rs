//! `nri-wasm-host --memory BYTES MODULE`: runs a WebAssembly plugin. `nrid` launches it in place
//! of a module of the plugin directory, so that the plugin is a process like any other: with the
//! rights and the cgroup of its policy, restarted when it ends.
//!
//! The interface between module and host is that of containerd/nri: [`functions`] has the names,
//! [`guest`] the calls. Not here: the choice of events and their order, and the limits of time,
//! which are the runtime's.

mod error;
mod functions;
mod guest;
mod host;
mod limits;
mod memory;
mod service;
mod session;
mod wasi;

use error::Error;
use functions::handled_events;
use guest::Guest;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Limit of the module's size in bytes. Programs in Go have about 10 MiB.
const MAX_MODULE: u64 = 128 << 20;

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to report a failure to.
            let _ = writeln!(stderr(), "nri-wasm-host: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), Error> {
    let (memory, path) = parse(arguments)?;
    let module = read(&path).map_err(|source| Error::Read { path, source })?;
    let guest = Guest::new(&module, memory)?;
    drop(module);
    if handled_events(&guest.exports()).is_empty() {
        return Err(Error::NoEvents);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Error::Start)?;
    let result = runtime.block_on(session::run(guest));
    // A guest that is running is not waited for.
    runtime.shutdown_background();
    result
}

/// Parses the command line: the limit of the guest's memory in bytes, and the module.
fn parse(arguments: impl Iterator<Item = OsString>) -> Result<(usize, PathBuf), Error> {
    let arguments: Vec<_> = arguments.collect();
    match &arguments[..] {
        [flag, bytes, module] if flag == "--memory" => {
            let memory = bytes.to_str().and_then(|bytes| bytes.parse().ok());
            Ok((memory.ok_or(Error::Usage)?, module.into()))
        }
        _ => Err(Error::Usage),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_MODULE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_MODULE {
        Err(io::Error::other(format!("larger than {MAX_MODULE} bytes")))
    } else {
        Ok(bytes)
    }
}

/// Returns the text of an error and of its causes in one line.
fn one_line(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let mut text = error.to_string();
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
