//! Names that more than one program uses: of files in the state directory, and of the log.

/// Control socket of `nrid`.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Lock that a process holds while it starts `nrid`.
pub const START_LOCK: &str = "start.lock";
/// Directory of the records of containers, one file per container that `nrid` knows.
pub const RECORDS_DIR: &str = "containers";
/// Maximum size of a record in bytes: more than twice that of the largest `config.json`, of which a
/// record may have the original.
pub const MAX_RECORD: u64 = 64 << 20;
/// Lock that `nrid` holds while it runs.
pub const LIFE_LOCK: &str = "nrid.lock";
/// File of an `nrid` that runs, left by one that ended without a clean stop
/// ([`NridLife`](crate::NridLife)).
pub const LIFE_FILE: &str = "nrid.life";
/// Socket in the state directory that answers `ready` to whoever connects, while `nrid` serves.
pub const READY_SOCKET: &str = "plugins/ready.sock";
/// Log of `nrid`, unless the configuration names another file.
pub const LOG_FILE: &str = "nrid.log";
/// Identifier of the log's lines in the journal.
pub const LOG_IDENTIFIER: &str = "nrid";
/// File with the reason why the last start of `nrid` failed. A start that succeeds removes it.
pub const START_FAILURE: &str = "start-failed";
