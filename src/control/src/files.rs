//! Names of files in the state directory that more than one program uses.

/// Control socket.
pub const CONTROL_SOCKET: &str = "control.sock";
/// Lock that a starter of `nrid` holds.
pub const START_LOCK: &str = "start.lock";
/// Directory of the records of containers, a file each; empty where no container is known.
pub const RECORDS_DIR: &str = "containers";
/// Lock that `nrid` holds while it runs.
pub const LIFE_LOCK: &str = "nrid.lock";
/// File with the reason for which the last start of `nrid` failed. A start that succeeds removes
/// it.
pub const START_FAILURE: &str = "start-failed";
