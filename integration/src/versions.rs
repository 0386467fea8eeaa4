//! Builds the plugin of `plugins/versions` with several versions of upstream's Go stub.

use crate::{Program, programs, skip};
use std::{path::PathBuf, process::Command, sync::OnceLock};

/// A version of upstream's stub and its features.
#[derive(Debug, Clone)]
pub struct Version {
    /// Version, such as `v0.3.0`.
    pub name: &'static str,
    /// The plugin, with flags, configuration and journal of the Go plugin.
    pub program: Program,
    /// The stub accepts a synchronization that is split into several messages.
    pub splits: bool,
    /// The protocol has the pids limit.
    pub pids: bool,
    /// The protocol has rlimits; the stub passes the resources of an update to the plugin, and
    /// offers evictions.
    pub since_v0_6: bool,
    /// The protocol has validation.
    pub validates: bool,
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
    BUILT.get_or_init(|| ["v0.3.0", "v0.6.1", "v0.9.0", "v0.12.5"].map(version).into())
}

fn version(name: &'static str) -> Version {
    let dir = programs::target_dir().join("integration");
    let file = format!("gostub-{name}");
    // Without a timeout: the first build downloads modules.
    let built = Command::new(programs::script("plugins/build.sh")).arg(&dir).arg(&file).output();
    let built = built.unwrap_or_else(|e| panic!("build.sh: {e}"));
    assert!(built.status.success(), "{file}: {}", String::from_utf8_lossy(&built.stderr));
    let path: PathBuf = dir.join(file);
    assert!(path.is_file(), "{}", path.display());
    let at_least = |minor: u32| {
        let number =
            name.split('.').nth(1).and_then(|n| n.parse::<u32>().ok()).expect("v0.MINOR.PATCH");
        number >= minor
    };
    Version {
        name,
        program: Program::Go(path),
        splits: at_least(7),
        pids: at_least(9),
        since_v0_6: at_least(6),
        validates: at_least(10),
    }
}
