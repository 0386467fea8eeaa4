//! nerdctl: nothing can be configured. `--runtime` takes the path of a runtime, and `nerdctl.toml`
//! has no key for it (`nerdctl: docs/config.md`, `pkg/cmd/container/run_runtime.go`).

use super::{
    engine::{Asked, Needs},
    error::InstallError,
};

/// What to say.
pub(crate) fn needs(asked: &Asked<'_>) -> Result<Needs, InstallError> {
    if asked.default {
        return Err(InstallError::NoDefault { engine: "nerdctl" });
    }
    let usage = asked
        .runtimes
        .iter()
        .map(|r| format!("nerdctl run --rm --runtime {} IMAGE", r.path()))
        .collect();
    let notes = vec!["nerdctl needs no configuration: its --runtime takes a path".to_owned()];
    Ok(Needs { notes, usage, ..Needs::default() })
}
