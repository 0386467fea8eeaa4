//! nerdctl needs no configuration: `--runtime` takes the path of a runtime, and `nerdctl.toml` has
//! no key for runtimes (`nerdctl: docs/config.md`, `pkg/cmd/container/run_runtime.go`).

use super::request::{EngineNeeds, InstallRequest};
use crate::install::error::InstallError;

/// Returns the commands that use the wrapper. No file changes.
pub(super) fn needs(request: &InstallRequest<'_>) -> Result<EngineNeeds, InstallError> {
    if request.default {
        return Err(InstallError::NoDefault { engine: "nerdctl" });
    }
    let command = |path: String| format!("nerdctl run --rm --runtime {path} IMAGE");
    let usage = request.runtimes.iter().map(|runtime| command(runtime.binary_text())).collect();
    let notes = vec!["nerdctl needs no configuration: its --runtime takes a path".to_owned()];
    Ok(EngineNeeds { notes, usage, ..EngineNeeds::default() })
}
