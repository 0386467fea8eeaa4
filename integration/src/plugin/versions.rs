//! Builds the plugin of `plugins/versions` with several versions of upstream's Go stub.

use crate::{Program, programs, skip};
use std::{path::PathBuf, process::Command, sync::OnceLock};

/// A version of upstream's stub and its features.
#[derive(Debug, Clone)]
pub struct Version {
    /// Version, such as `v0.3.0`.
    pub name: &'static str,
    /// The plugin. Its flags, configuration and journal are those of the Go plugin.
    pub program: Program,
    /// The stub accepts a synchronization that is split into several messages.
    pub accepts_split_synchronization: bool,
    /// The protocol has the pids limit.
    pub has_pids_limit: bool,
    /// Since v0.6 the protocol has rlimits, and the stub passes the resources of an update to the
    /// plugin and offers evictions.
    pub is_at_least_v0_6: bool,
    /// The protocol has validation.
    pub has_validation: bool,
}

/// Returns all versions, oldest first. Records a skip and returns none if Go is not installed.
///
/// # Panics
/// A build fails.
pub fn versions(test: &str) -> &'static [Version] {
    static BUILT: OnceLock<Vec<Version>> = OnceLock::new();
    if programs::find_program("go").is_none() {
        skip(test, "no go toolchain");
        return &[];
    }
    BUILT.get_or_init(|| ["v0.3.0", "v0.6.1", "v0.9.0", "v0.12.5"].map(build).into())
}

fn build(name: &'static str) -> Version {
    let dir = programs::target_dir().join("integration");
    let file = format!("gostub-{name}");
    // Without a timeout: the first build downloads modules.
    let output = Command::new(programs::script("plugins/build.sh")).arg(&dir).arg(&file).output();
    let output = output.unwrap_or_else(|e| panic!("build.sh: {e}"));
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    let path: PathBuf = dir.join(file);
    assert!(path.is_file(), "build.sh has not built {}", path.display());
    let at_least = |minor: u32| {
        let number =
            name.split('.').nth(1).and_then(|n| n.parse::<u32>().ok()).expect("v0.MINOR.PATCH");
        number >= minor
    };
    Version {
        name,
        program: Program::Go(path),
        accepts_split_synchronization: at_least(7),
        has_pids_limit: at_least(9),
        is_at_least_v0_6: at_least(6),
        has_validation: at_least(10),
    }
}
