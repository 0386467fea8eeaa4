//! The plugin of `plugins/versions`: the same one, on several versions of upstream's Go stub.

use crate::{Program, programs, skip};
use std::{path::PathBuf, process::Command, sync::OnceLock};

/// A version of upstream's stub, and what it can do.
#[derive(Debug, Clone)]
pub struct Version {
    /// `v0.3.0`, say.
    pub name: &'static str,
    /// The plugin, whose flags, configuration and journal are the Go plugin's.
    pub program: Program,
    /// It puts a state together that comes in several messages.
    pub splits: bool,
    /// Its protocol has limits of pids.
    pub pids: bool,
    /// Its protocol has rlimits; and its stub brings the resources of an update to the plugin, and
    /// lets it ask for evictions.
    pub since_v0_6: bool,
    /// It validates.
    pub validates: bool,
}

/// All versions, oldest first; none, which is a skip, if there is no Go.
///
/// # Panics
/// One does not build.
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
    // However long: the first time, modules are fetched.
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
