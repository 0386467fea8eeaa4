//! The functions of the module `env` that the host provides, as upstream NRI: `log`.

use crate::limits::GuestLimits;
use crate::memory;
use nri_api::proto::{LogRequest, log_request::Level};
use protobuf::Message;
use std::io::{Write, stderr};
use wasmi::errors::LinkerError;
use wasmi::{Caller, Error, Linker};

/// Defines the functions.
pub(crate) fn define(linker: &mut Linker<GuestLimits>) -> Result<(), LinkerError> {
    linker.func_wrap("env", "log", log)?;
    Ok(())
}

/// Writes a message of the guest to standard error, which the runtime logs. The reply is an empty
/// message: its pointer and its size are 0.
fn log(caller: Caller<'_, GuestLimits>, pointer: u32, size: u32) -> Result<u64, Error> {
    let request = LogRequest::parse_from_bytes(memory::read(&caller, pointer, size)?)
        .map_err(|e| Error::new(format!("message for log is malformed: {e}")))?;
    let level = match request.level.enum_value_or_default() {
        Level::LEVEL_ERROR => "ERROR",
        Level::LEVEL_WARN => " WARN",
        Level::LEVEL_INFO => " INFO",
        Level::LEVEL_DEBUG | Level::LEVEL_UNSPECIFIED => "DEBUG",
    };
    // Nothing is left to report a failure to.
    let _ = writeln!(stderr(), "{level} {}", request.msg);
    Ok(0)
}
