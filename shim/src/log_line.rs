//! Errors and warnings on stderr, and in the file of `--log` in the format of `--log-format`.
//!
//! containerd and Docker read the file as a stream of JSON values and report the last one of level
//! `error`. With a line that is not JSON they would not find the message. A line that cannot be
//! written is dropped: a failing log must not stop a container.

use crate::{args::CommandLine, runtime_error};
use humantime::format_rfc3339_seconds;
use nri_locate::working_dir;
use nri_values::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::OpenOptions,
    io::Write,
    os::{fd::AsFd, unix::ffi::OsStrExt, unix::fs::OpenOptionsExt},
    path::PathBuf,
    time::SystemTime,
};

/// Beginning of our lines, which stand between those of the real runtime.
const NAME: &str = "nri-container-runtime";

/// Destination of log lines.
#[derive(Debug)]
pub(crate) struct LogLine {
    file: Option<PathBuf>,
    json: bool,
}

impl LogLine {
    /// Returns the destination that the command line names.
    pub(crate) fn new(command_line: &CommandLine<'_>) -> Self {
        let file = command_line.flags.log.and_then(|bytes| {
            // `journald:` and `syslog:` are destinations of crun, to which the wrapper does not
            // write. The other runtimes write to files only.
            if bytes.is_empty() || bytes.starts_with(b"journald:") || bytes.starts_with(b"syslog:")
            {
                return None;
            }
            let path = std::ffi::OsStr::from_bytes(bytes.strip_prefix(b"file:").unwrap_or(bytes));
            Some(working_dir().join(path))
        });
        Self { file, json: command_line.flags.log_format == Some(b"json") }
    }

    /// Returns the size of the file, for [`LogLine::error_of_runtime`]; `None` if there is no file.
    pub(crate) fn size(&self) -> Option<u64> {
        runtime_error::size(self.file.as_deref()?)
    }

    /// Returns the last error that the real runtime wrote after the first `before` bytes of the
    /// file.
    pub(crate) fn error_of_runtime(&self, before: Option<u64>) -> Option<String> {
        runtime_error::last(self.file.as_deref()?, before?, self.json)
    }

    /// Adds a text to an error of the real runtime. Engines show the last error of the file, so the
    /// file gets a line with both. If the runtime wrote no error to the file, engines look for it
    /// on stderr, and only stderr gets the text.
    pub(crate) fn add_to_error(&self, error: Option<&str>, addition: &str) {
        let addition = printable(addition.trim_end());
        if let Some(error) = error {
            self.write_file("error", &format!("{}; {addition}", printable(error)));
        }
        write_stderr(&format!("{NAME}: {addition}"));
    }

    /// Writes the error with which the verb fails.
    pub(crate) fn error(&self, message: &str) {
        self.write_line("error", message);
    }

    /// Writes a problem that does not stop the verb.
    pub(crate) fn warning(&self, message: &str) {
        self.write_line("warning", message);
    }

    fn write_line(&self, level: &str, message: &str) {
        let message = format!("{NAME}: {}", printable(message.trim_end()));
        self.write_file(level, &message);
        write_stderr(&message);
    }

    fn write_file(&self, level: &str, message: &str) {
        if let Some(path) = &self.file {
            // Flags and mode of runc.
            if let Ok(mut file) =
                OpenOptions::new().append(true).create(true).mode(0o644).open(path)
            {
                let time = format_rfc3339_seconds(SystemTime::now()).to_string();
                let text = format(self.json, level, message, &time);
                if has_reader(&file) {
                    let _ = file.write_all(text.as_bytes());
                }
            }
        }
    }
}

fn write_stderr(message: &str) {
    let stderr = std::io::stderr();
    if has_reader(&stderr) {
        let _ = stderr.lock().write_all(format!("{message}\n").as_bytes());
    }
}

/// Formats a line, with its line feed.
fn format(json: bool, level: &str, message: &str, time: &str) -> String {
    let quoted = serde_json::Value::from(message);
    if json {
        format!("{{\"level\":\"{level}\",\"msg\":{quoted},\"time\":\"{time}\"}}\n")
    } else {
        format!("time=\"{time}\" level={level} msg={quoted}\n")
    }
}

/// Whether a pipe still has a reader. A write into a pipe without a reader would end this process
/// by SIGPIPE.
fn has_reader(file: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(file, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok()
        && !fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_args::globals::Globals;

    #[test]
    fn a_line_is_json_or_logfmt() {
        let time = "2026-08-01T10:00:00Z";
        assert_eq!(
            format(true, "error", "plugin \"a\"\tsaid é", time),
            "{\"level\":\"error\",\"msg\":\"plugin \\\"a\\\"\\tsaid \
             é\",\"time\":\"2026-08-01T10:00:00Z\"}\n"
        );
        assert_eq!(
            format(false, "warning", "a \"b\"", time),
            "time=\"2026-08-01T10:00:00Z\" level=warning msg=\"a \\\"b\\\"\"\n"
        );
    }

    #[test]
    fn only_files_are_log_destinations() {
        for (log, file) in [
            ("/l/og", Some("/l/og")),
            ("file:/l/og", Some("/l/og")),
            ("journald:id", None),
            ("syslog:id", None),
            ("", None),
        ] {
            let flags = Globals { log: Some(log.as_bytes()), ..Globals::default() };
            let command_line = CommandLine { flags, ..CommandLine::default() };
            assert_eq!(LogLine::new(&command_line).file, file.map(PathBuf::from));
        }
    }
}
