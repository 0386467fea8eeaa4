//! Decides whether NRI is out of service: by break-glass, or by the key `disable`.

use crate::{call::Call, log_line::LogLine};
use nri_config::Config;
use nri_locate::{BYPASS_FILE, BreakGlass, break_glass};

/// Whether every verb is a plain call of the real runtime. A break-glass file that is not trusted
/// is ignored with a warning.
pub(crate) fn is_set(call: &Call, config: &Config, log: &LogLine) -> bool {
    config.disable
        || match break_glass(&call.environment) {
            BreakGlass::On => true,
            BreakGlass::Off => false,
            BreakGlass::Ignored(why) => {
                log.warning(&format!("{BYPASS_FILE} is not trusted, ignored: {why}"));
                false
            }
        }
}
