//! Decides whether NRI is bypassed, by break-glass or by the configuration key `disable`.

use crate::{answers::answers, invocation::Invocation};
use nri_locate::{BreakGlass, break_glass};

/// Whether NRI is bypassed, so that every verb is a plain call of the real runtime. Logs a warning
/// if the break-glass file is not trusted, and ignores the file.
pub(crate) fn is_set(invocation: &Invocation<'_>) -> bool {
    invocation.settings.is_disabled
        || match break_glass(&invocation.call.environment, answers) {
            BreakGlass::On(_) => true,
            BreakGlass::Off => false,
            BreakGlass::Ignored(file, why) => {
                let warning = format!("{} is not trusted, ignored: {why}", file.display());
                invocation.log.warning(&warning);
                false
            }
            BreakGlass::Hangs(file) => {
                let warning = format!("{}: its file system hangs, ignored", file.display());
                invocation.log.warning(&warning);
                false
            }
        }
}
