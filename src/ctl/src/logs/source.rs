//! Where the lines of the log come from: its file, or the journal if `nrid` logs there or writes to
//! standard error.

use crate::{
    error::CtlError, logs::journal::JournalReader, nrid, nrid_location::NridLocation,
    rotated_log::RotatedLog,
};
use nri_config::LogDestination;
use nri_files::LOG_FILE;
use nri_values::printable;
use rustix::process::geteuid;
use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

/// The lines of the log.
#[derive(Debug)]
pub(super) enum LogSource {
    File { path: PathBuf, log: RotatedLog },
    Journal(JournalReader),
}

impl LogSource {
    /// Opens the log of the running `nrid`, or else the one that the configuration names. With
    /// `may_be_missing`, the file may not exist yet.
    pub(super) fn open(nrid: &NridLocation, may_be_missing: bool) -> Result<Self, CtlError> {
        let running = nrid::status_if_running(nrid)?;
        let configured = &nrid.config.log;
        let file = match running {
            Some(status) => {
                let file = status.log.map(|path| PathBuf::from(path.0));
                if let (Some(error), Some(file)) = (&status.journal_error, &file) {
                    eprintln!(
                        "nrictl: journald does not receive ({}); newer lines are in {}",
                        printable(error),
                        file.display()
                    );
                }
                file.filter(|_| !status.log_is_journal)
            }
            None if configured.destination == LogDestination::Journal => None,
            None => {
                let default = || nrid.launcher.state_dir.join(LOG_FILE);
                Some(configured.file.clone().unwrap_or_else(default))
            }
        };
        let Some(path) = file else { return JournalReader::start(&[]).map(Self::Journal) };
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
            Self::Journal(reader) => match reader.next()? {
                Some(line) => Ok(Some(line)),
                None => reader.check_end().map(|()| None),
            },
        }
    }

    /// Returns the next line that is added; `None` if there is none now.
    pub(super) fn next_added(&mut self) -> Result<Option<String>, CtlError> {
        let Self::Journal(reader) = self else { return self.next() };
        if let Some(line) = reader.next()? {
            return Ok(Some(line));
        }
        reader.check_end()?;
        let after = reader.cursor.take().map(|cursor| format!("--after-cursor={cursor}"));
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
    CtlError::Log { path: path.to_owned(), source: error }
}
