//! The context in which every verb is handled.

use crate::{args::CommandLine, call::Call, log_line::LogLine};
use nri_files::CallSettings;
use std::path::Path;

/// A call of this program, with the settings that apply to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) call: &'a Call,
    pub(crate) command_line: &'a CommandLine<'a>,
    /// The configuration file that the call names.
    pub(crate) config: Option<&'a Path>,
    pub(crate) settings: &'a CallSettings,
    pub(crate) log: &'a LogLine,
}
