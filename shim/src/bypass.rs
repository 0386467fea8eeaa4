//! Break-glass: a variable, a file or a key of the configuration makes every verb a plain call of
//! the real runtime.

use crate::{call::Call, log_line::LogLine};
use nri_config::{BYPASS_ENV, BYPASS_FILE, Config};
use nri_trust::Owners;
use std::path::Path;

/// Whether NRI is out of service by the will of somebody who may decide that.
pub(crate) fn is_set(call: &Call, config: &Config, log: &LogLine) -> bool {
    config.disable || call.var(BYPASS_ENV).is_some_and(|v| v != "0") || by_file(log)
}

/// Whether the file is there. Where others than root could have put it there, they could take a
/// container away from its plugins.
fn by_file(log: &LogLine) -> bool {
    let file = Path::new(BYPASS_FILE);
    if !file.exists() {
        return false;
    }
    match Owners::of_this_process().check(file) {
        Ok(()) => true,
        Err(e) => {
            log.warning(&format!("{BYPASS_FILE} is not relied upon: {e}"));
            false
        }
    }
}
