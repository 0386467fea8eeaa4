//! Files in the state directory that more than one program reads or writes: their names, and the
//! formats of the audit log, of exec markers and of the sign of life of `nrid`.
//!
//! Records of containers are not among them: only `nrid` reads and writes these.

#![forbid(unsafe_code)]

mod audit;
mod life;
mod marker;
mod names;
mod text;

pub use audit::{
    AUDIT_LOG, AuditEvent, AuditLine, FieldChange, MASKED, MissedPlugin, PREVIOUS_SUFFIX, mask_hook,
};
pub use life::{NridLife, UncleanEnd};
pub use marker::{EXEC_DIR, ExecChanges, ExecContainer, ExecMarker, ExecRlimit, ExecVariable};
pub use names::{
    CONTROL_SOCKET, LIFE_FILE, LIFE_LOCK, LOG_FILE, MAX_RECORD, READY_SOCKET, RECORDS_DIR,
    START_FAILURE, START_LOCK,
};
pub use text::OsText;
