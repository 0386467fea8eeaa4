//! Break-glass, as the wrapper has it: for a container whose document still names this hook after
//! NRI was put out of service.

use nri_trust::Owners;
use std::path::Path;

/// Same as in `nri-config`, whose parser this program does not need; a test keeps them in step.
pub(crate) const ENV: &str = "NRI_CONTAINER_RUNTIME_BYPASS";
/// As [`ENV`].
pub(crate) const FILE: &str = "/etc/nri-container-runtime/bypass";

/// Whether NRI is out of service by the will of somebody who may decide that. The environment is
/// the container's document's, or the runtime's.
pub(crate) fn is_set() -> bool {
    let file = Path::new(FILE);
    std::env::var_os(ENV).is_some_and(|v| !v.is_empty() && v != "0")
        || (file.exists() && Owners::of_this_process().check(file).is_ok())
}
