//! Plugins of the tests that are WebAssembly modules.

use crate::{programs, skip};
use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

/// Modules that `plugins/build.sh` and `plugins/wasm-rust.sh` build, and the variable that each one
/// sets in containers; records a skip of those whose compiler is missing.
///
/// # Panics
/// A build fails.
pub fn wasm_guests(test: &str) -> Vec<(&'static str, PathBuf)> {
    static BUILT: OnceLock<[Option<PathBuf>; 2]> = OnceLock::new();
    let [go, rust] = BUILT.get_or_init(|| {
        [
            built("plugins/build.sh", &["gowasm"], "gowasm.wasm"),
            built("plugins/wasm-rust.sh", &[], "nri_wasm_guest.wasm"),
        ]
    });
    if go.is_none() {
        skip(test, "no go toolchain");
    }
    if rust.is_none() {
        skip(test, "no Rust compiler with a standard library for wasm32-unknown-unknown");
    }
    [("GO_WASM", go), ("WASM", rust)]
        .into_iter()
        .filter_map(|(variable, module)| Some((variable, module.clone()?)))
        .collect()
}

/// Runs a script that builds a module into `target/integration`; `None` if it skips the module.
fn built(script: &str, names: &[&str], module: &str) -> Option<PathBuf> {
    let dir = programs::target_dir().join("integration");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let mut build = Command::new(programs::script(script));
    // With CI set, the script would fail without a compiler; `skip` reports that instead.
    build.arg(&dir).args(names).env_remove("CI");
    let built = build.stderr(Stdio::inherit()).output().expect("the script runs");
    assert!(built.status.success(), "{script}: {}", built.status);
    (!built.stdout.starts_with(b"skipped")).then(|| dir.join(module))
}
