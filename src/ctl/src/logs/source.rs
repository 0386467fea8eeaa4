//! Where the lines of the log come from: its file, or the journal if `nrid` writes to standard
//! error, as under systemd.

use crate::{error::CtlError, nrid, nrid_location::NridLocation, rotated_log::RotatedLog};
use rustix::process::geteuid;
use std::{
    io::{self, BufRead, BufReader, ErrorKind},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

/// The unit of `nrid`, of the system or of a user.
pub(crate) const UNIT: &str = "nri-container-runtime";

/// Name of the log in the state directory, unless the configuration names a file.
const LOG_FILE: &str = "nrid.log";

/// What journalctl prints before the cursor of the last line.
const CURSOR: &str = "-- cursor: ";

/// The lines of the log.
#[derive(Debug)]
pub(super) enum LogSource {
    File { path: PathBuf, log: RotatedLog },
    Journal { reader: JournalReader, cursor: Option<String> },
}

/// A journalctl, killed when it is dropped.
#[derive(Debug)]
pub(super) struct JournalReader {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl LogSource {
    /// Opens the log of the running `nrid`, or else the one that the configuration names. With
    /// `may_be_missing`, the file may not exist yet.
    pub(super) fn open(nrid: &NridLocation, may_be_missing: bool) -> Result<Self, CtlError> {
        let running = nrid::connect(nrid)?.as_ref().map(nrid::status).transpose()?;
        let path = match running {
            Some(status) => match status.log {
                Some(path) => PathBuf::from(path.0),
                None => {
                    let reader = JournalReader::start(&["--show-cursor"])?;
                    return Ok(Self::Journal { reader, cursor: None });
                }
            },
            None => {
                let configured = nrid.config.log.file.clone();
                configured.unwrap_or_else(|| nrid.launcher.state_dir.join(LOG_FILE))
            }
        };
        let log = RotatedLog::open(&path).map_err(|error| unreadable(&path, error))?;
        if !log.exists() && !may_be_missing {
            return Err(CtlError::NoLog(path));
        }
        Ok(Self::File { path, log })
    }

    /// Returns the next line that exists already; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<String>, CtlError> {
        match self {
            Self::File { path, log } => log.next().map_err(|error| unreadable(path, error)),
            Self::Journal { reader, cursor } => loop {
                match reader.next()? {
                    None => return reader.check_end().map(|()| None),
                    Some(line) => match line.strip_prefix(CURSOR) {
                        Some(last) => *cursor = Some(last.to_owned()),
                        None => return Ok(Some(line)),
                    },
                }
            },
        }
    }

    /// Returns the next line that is added; `None` if there is none now.
    pub(super) fn next_added(&mut self) -> Result<Option<String>, CtlError> {
        let Self::Journal { reader, cursor } = self else { return self.next() };
        if let Some(line) = reader.next()? {
            return Ok(Some(line));
        }
        reader.check_end()?;
        let after = cursor.take().map(|cursor| format!("--after-cursor={cursor}"));
        let mut arguments = vec!["--follow"];
        arguments.push(after.as_deref().unwrap_or("--lines=0"));
        *reader = JournalReader::start(&arguments)?;
        Ok(None)
    }
}

fn unreadable(path: &std::path::Path, error: io::Error) -> CtlError {
    if error.kind() == ErrorKind::PermissionDenied && !geteuid().is_root() {
        return CtlError::NeedsRoot(format!("log {}: {error}", path.display()));
    }
    CtlError::Log(path.to_owned(), error)
}

impl JournalReader {
    fn start(arguments: &[&str]) -> Result<Self, CtlError> {
        let mut command = Command::new("journalctl");
        if !geteuid().is_root() {
            command.arg("--user");
        }
        command.args(["--no-pager", "--quiet", "--output=cat", "--unit", UNIT]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(CtlError::Journal)?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"));
        let output = BufReader::new(output.map_err(CtlError::Journal)?);
        Ok(Self { child, output })
    }

    /// Returns the next line; `None` if journalctl has ended.
    fn next(&mut self) -> Result<Option<String>, CtlError> {
        let mut line = Vec::new();
        self.output.read_until(b'\n', &mut line).map_err(CtlError::Journal)?;
        if line.is_empty() {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
    }

    /// Checks that journalctl has ended without an error.
    fn check_end(&mut self) -> Result<(), CtlError> {
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
