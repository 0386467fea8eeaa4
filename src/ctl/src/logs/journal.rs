//! Lines of `nrid` in the journal, as journalctl prints them.

use crate::{error::CtlError, logs::line::ParsedLine};
use nri_files::LOG_IDENTIFIER;
use rustix::process::geteuid;
use serde::Deserialize;
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, UNIX_EPOCH},
};

/// What is needed of an entry.
const FIELDS: &str = "--output-fields=MESSAGE,PRIORITY,_TRANSPORT";

/// A journalctl, killed when it is dropped.
#[derive(Debug)]
pub(super) struct JournalReader {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Where the last line is in the journal.
    pub(super) cursor: Option<String>,
}

/// An entry of the journal.
#[derive(Debug, Deserialize)]
struct JournalEntry {
    /// A text, or an array of bytes.
    #[serde(rename = "MESSAGE", default)]
    message: Value,
    #[serde(rename = "PRIORITY")]
    priority: Option<String>,
    #[serde(rename = "_TRANSPORT")]
    transport: Option<String>,
    /// Microseconds since 1970.
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    time: Option<String>,
    #[serde(rename = "__CURSOR")]
    cursor: Option<String>,
}

impl JournalReader {
    pub(super) fn start(arguments: &[&str]) -> Result<Self, CtlError> {
        let mut command = Command::new("journalctl");
        let user = geteuid();
        if !user.is_root() {
            command.arg("--user");
        }
        command.args(["--no-pager", "--quiet", "--all", "--output=json", FIELDS]);
        command.args(["--identifier", LOG_IDENTIFIER]).args(arguments);
        // Not the lines of another user's nrid.
        command.arg(format!("_UID={}", user.as_raw()));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(CtlError::Journal)?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"));
        let output = BufReader::new(output.map_err(CtlError::Journal)?);
        Ok(Self { child, output, cursor: None })
    }

    /// Returns the next line, in the form of a line of a file; `None` if journalctl has ended.
    pub(super) fn next(&mut self) -> Result<Option<String>, CtlError> {
        let mut line = Vec::new();
        self.output.read_until(b'\n', &mut line).map_err(CtlError::Journal)?;
        if line.is_empty() {
            return Ok(None);
        }
        let entry = serde_json::from_slice::<JournalEntry>(&line);
        let mut entry = entry.map_err(|error| CtlError::Journal(error.into()))?;
        self.cursor = entry.cursor.take().or(self.cursor.take());
        Ok(Some(entry.line()))
    }

    /// Checks that journalctl has ended without an error.
    pub(super) fn check_end(&mut self) -> Result<(), CtlError> {
        let status = self.child.wait().map_err(CtlError::Journal)?;
        if status.success() { Ok(()) } else { Err(CtlError::JournalFailed(status)) }
    }
}

impl Drop for JournalReader {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl JournalEntry {
    fn line(&self) -> String {
        let message = match &self.message {
            Value::String(text) => text.clone(),
            Value::Array(bytes) => {
                let bytes = bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
                String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
            }
            _ => String::new(),
        };
        // What nrid wrote to standard error has its own time, or is no line of the log.
        let is_sent = self.transport.as_deref() == Some("journal");
        let micros = self.time.as_ref().and_then(|time| time.parse().ok());
        let time = micros.and_then(|micros| UNIX_EPOCH.checked_add(Duration::from_micros(micros)));
        let Some(time) = time.filter(|_| is_sent && ParsedLine::parse(&message).time().is_none())
        else {
            return message;
        };
        let level = match self.priority.as_deref() {
            Some("0" | "1" | "2" | "3") => "ERROR",
            Some("4") => "WARN",
            Some("7") => "DEBUG",
            _ => "INFO",
        };
        format!("{} {level:>5} {message}", humantime::format_rfc3339_micros(time))
    }
}
