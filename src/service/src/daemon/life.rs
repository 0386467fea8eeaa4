//! The file by which the next `nrid`, and `nrictl doctor`, find out that this `nrid` ended without
//! a clean stop, and when ([`NridLife`]).
//!
//! No process waits for `nrid`: whoever starts it, often a wrapper, exits. So the signal is known
//! only if the kernel's log names it, or if systemd has started `nrid`, in the journal.

use crate::{
    audit::Audit, cgroup::kernel_log, host::file_access::blocking, process::activation::file_id,
};
use nri_files::{AuditEvent, AuditLine, NridLife, UncleanEnd};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Writes and removes the file of this process.
#[derive(Debug)]
pub struct LifeFile {
    state_dir: PathBuf,
    life: NridLife,
    /// Device and inode of the file, if it was written.
    written: Option<(u64, u64)>,
}

impl LifeFile {
    /// Begins the life of this process, which holds the lock of the state directory. Reports the
    /// end of the previous `nrid` if that was not clean. After a restart (`is_same_process`), the
    /// file is that of this process.
    pub fn begin(state_dir: &Path, is_same_process: bool, audit: &Audit) -> Self {
        let previous = NridLife::read(state_dir);
        let earlier = previous.as_ref().and_then(|life| life.unclean_end.clone());
        let end = match previous.filter(|_| !is_same_process) {
            Some(previous) => previous.end(state_dir).map(complete),
            None => None,
        };
        if let Some(end) = &end {
            report(end, audit);
        }
        let life = NridLife::of_this_process(end.or(earlier));
        let mut file = Self { state_dir: state_dir.to_owned(), life, written: None };
        file.write();
        file
    }

    /// Returns the last end of an `nrid` that was not clean, unless there was a clean one since.
    pub fn unclean_end(&self) -> Option<UncleanEnd> {
        self.life.unclean_end.clone()
    }

    /// Gives a sign of life. Writes the file again if it was removed.
    pub fn give_sign(&mut self) {
        if NridLife::give_sign(&self.state_dir)
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            self.write();
        }
    }

    /// Removes the file at a clean end, unless it is that of another `nrid` by now.
    pub fn remove(&self) {
        let path = NridLife::path(&self.state_dir);
        if self.written.is_some() && file_id(&path) == self.written {
            // If it stays, the next nrid reports a clean end as one that was not.
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(file = %path.display(), %error, "cannot remove the file");
            }
        }
    }

    fn write(&mut self) {
        // The log says why nothing can be written there; records fail, too.
        self.written = match self.life.write(&self.state_dir) {
            Ok(()) => file_id(&NridLife::path(&self.state_dir)),
            Err(_) => None,
        };
    }
}

/// Adds what is known only now: when the next `nrid` started, and what the kernel's log says.
fn complete(end: UncleanEnd) -> UncleanEnd {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // A log that cannot be read says nothing.
    let cause = blocking(|| kernel_log::oom_kill(end.pid, nri_locate::NRID)).ok().flatten();
    UncleanEnd { next_start: now, cause, ..end }
}

/// Logs the end, and writes it to the audit log.
fn report(end: &UncleanEnd, audit: &Audit) {
    let UncleanEnd { pid, last_sign, next_start, cause } = end;
    let at = |seconds: &u64| {
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(*seconds)).to_string()
    };
    let (after, before) = (at(last_sign), at(next_start));
    let cause = cause.as_deref().unwrap_or("the signal is not known");
    tracing::error!(pid, after, before, cause, "the previous nrid ended without a clean stop");
    audit.write(AuditLine {
        event: AuditEvent::NridEnded,
        message: format!(
            "nrid (process {pid}) ended without a clean stop between {after} and {before}: {cause}"
        ),
        ..AuditLine::default()
    });
}
