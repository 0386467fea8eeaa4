//! Files that more than one program reads or writes: their names, and the formats of the audit log,
//! of exec markers, of the sign of life of `nrid`, and of the settings that it publishes.
//!
//! Records of containers are not among them: only `nrid` reads and writes these.

#![forbid(unsafe_code)]

mod audit;
mod call_settings;
mod digest;
mod life;
mod marker;
mod names;
mod text;

pub use audit::{
    AUDIT_LOG, AuditEvent, AuditLine, FieldChange, MASKED, MissedPlugin, PREVIOUS_SUFFIX, mask_hook,
};
pub use call_settings::{
    CallSettings, PublishError, PublishedSettings, published_file, reply_limit,
};
pub use life::{NridLife, UncleanEnd};
pub use marker::{
    EXEC_DIR, ExecChanges, ExecContainer, ExecLimits, ExecMarker, ExecRights, ExecRlimit, ExecUser,
    ExecVariable,
};
pub use names::{
    CONTROL_SOCKET, LIFE_FILE, LIFE_LOCK, LOG_FILE, LOG_IDENTIFIER, MAX_RECORD, READY_SOCKET,
    RECORDS_DIR, START_FAILURE, START_LOCK,
};
pub use text::OsText;
