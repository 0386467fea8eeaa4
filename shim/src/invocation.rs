//! The context in which every verb is handled.

use crate::{args::CommandLine, call::Call, log_line::LogLine};
use nri_locate::LoadedConfig;

/// A call of this program, with the configuration that applies to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) call: &'a Call,
    pub(crate) command_line: &'a CommandLine,
    pub(crate) loaded: &'a LoadedConfig,
    pub(crate) log: &'a LogLine,
}
