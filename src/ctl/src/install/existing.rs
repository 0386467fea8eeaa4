//! What becomes of existing containers when the wrapper becomes the default runtime: a note of
//! `nrictl install --default`.

use super::{engines::kind::TargetEngine, install_root::InstallRoot};
use crate::{
    engine_containers::{Wrapper, find},
    units::counted,
};
use std::path::Path;

/// Returns the note. An image has no running containers; nerdctl takes its runtime from each call,
/// and keeps it as well.
pub(super) fn note(root: &InstallRoot, engine: TargetEngine, state_dir: &Path) -> Option<String> {
    if !root.is_machine() {
        return None;
    }
    let containers = find(state_dir).containers.into_iter();
    let without = containers.filter(|c| c.wrapper == Wrapper::No && c.is_of(engine)).count();
    let (things, until) = match engine {
        TargetEngine::Containerd | TargetEngine::Crio => ("pods", "they end"),
        _ => ("containers, also stopped ones,", "they are created again"),
    };
    let running = match without {
        0 => "none runs without the wrapper now".to_owned(),
        1 => "1 runs without the wrapper now: `nrictl containers --all-runtimes`".to_owned(),
        count => format!(
            "{} run without the wrapper now: `nrictl containers --all-runtimes`",
            counted(count, "container")
        ),
    };
    Some(format!(
        "existing {things} keep their runtime, also over a restart, until {until} \
         (docs/existing-containers.md); {running}"
    ))
}
