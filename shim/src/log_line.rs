//! Errors and warnings, where engines look for them: stderr, and the file of `--log` in the format
//! of `--log-format`.
//!
//! containerd and Docker read the file as a stream of JSON values and report the last whose level
//! is `error`; one line that is no JSON would lose the message. Not being able to write is never an
//! error: it must not stop a container.

use crate::{args::Scanned, timestamp};
use nri_control::printable;
use nri_locate::working_dir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs::OpenOptions,
    io::Write,
    os::{fd::AsFd, unix::ffi::OsStrExt, unix::fs::OpenOptionsExt},
    path::PathBuf,
};

/// Where lines go.
#[derive(Debug)]
pub(crate) struct LogLine {
    file: Option<PathBuf>,
    json: bool,
}

impl LogLine {
    /// As the command line says.
    pub(crate) fn new(scanned: &Scanned) -> Self {
        let file = scanned.log.as_deref().and_then(|log| {
            // crun's destinations; the others know files only.
            let bytes = log.as_bytes();
            if bytes.is_empty() || bytes.starts_with(b"journald:") || bytes.starts_with(b"syslog:")
            {
                return None;
            }
            let path = std::ffi::OsStr::from_bytes(bytes.strip_prefix(b"file:").unwrap_or(bytes));
            Some(working_dir().join(path))
        });
        Self { file, json: scanned.log_format.as_deref().is_some_and(|f| f == "json") }
    }

    /// The verb fails with this.
    pub(crate) fn error(&self, message: &str) {
        self.line("error", message);
    }

    /// The verb goes on in spite of this.
    pub(crate) fn warning(&self, message: &str) {
        self.line("warning", message);
    }

    fn line(&self, level: &str, message: &str) {
        let message = format!("nri-container-runtime: {}", printable(message.trim_end()));
        if let Some(path) = &self.file {
            // As runc opens it.
            if let Ok(mut file) =
                OpenOptions::new().append(true).create(true).mode(0o644).open(path)
            {
                let text = format(self.json, level, &message, &timestamp::now());
                if is_heard(&file) {
                    let _ = file.write_all(text.as_bytes());
                }
            }
        }
        let stderr = std::io::stderr();
        if is_heard(&stderr) {
            let _ = stderr.lock().write_all(format!("{message}\n").as_bytes());
        }
    }
}

/// One line, with its line feed.
fn format(json: bool, level: &str, message: &str, time: &str) -> String {
    let quoted = serde_json::Value::from(message);
    if json {
        format!("{{\"level\":\"{level}\",\"msg\":{quoted},\"time\":\"{time}\"}}\n")
    } else {
        format!("time=\"{time}\" level={level} msg={quoted}\n")
    }
}

/// Whether anybody reads. Writing into a pipe that nobody reads would end this process by SIGPIPE.
fn is_heard(file: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(file, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok()
        && !fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn formats() {
        let time = "2026-08-01T10:00:00Z";
        assert_eq!(
            format(true, "error", "plugin \"a\"\tsaid é", time),
            "{\"level\":\"error\",\"msg\":\"plugin \\\"a\\\"\\tsaid é\",\"time\":\"2026-08-01T10:00:00Z\"}\n"
        );
        assert_eq!(
            format(false, "warning", "a \"b\"", time),
            "time=\"2026-08-01T10:00:00Z\" level=warning msg=\"a \\\"b\\\"\"\n"
        );
    }

    #[test]
    fn destinations() {
        for (log, file) in [
            ("/l/og", Some("/l/og")),
            ("file:/l/og", Some("/l/og")),
            ("journald:id", None),
            ("syslog:id", None),
            ("", None),
        ] {
            let scanned = Scanned { log: Some(OsString::from(log)), ..Scanned::default() };
            assert_eq!(LogLine::new(&scanned).file, file.map(PathBuf::from), "{log}");
        }
    }
}
