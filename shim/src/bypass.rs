//! Break-glass: a variable, a file or a key of the configuration makes every verb a plain call of the real runtime.

use crate::call::Call;
use nri_config::{BYPASS_ENV, BYPASS_FILE, Config};
use std::path::Path;

/// Whether NRI is out of service by somebody's will.
pub(crate) fn is_set(call: &Call, config: &Config) -> bool {
    config.disable || call.var(BYPASS_ENV).is_some_and(|v| v != "0") || Path::new(BYPASS_FILE).exists()
}
