//! Runtime that starts no process, for tests with hundreds of containers: the program
//! `fake_runtime` of `tests`. It reports each container as created and without a process.

use crate::{Runtime, programs};
use serde_json::json;
use std::{fs, os::unix::fs::symlink, path::Path};

/// Installs the fake runtime in a directory.
///
/// # Panics
/// The directory cannot be written, or the program is not built.
pub fn fake_runtime(dir: &Path) -> Runtime {
    let path = dir.join("runc");
    symlink(programs::built("fake_runtime"), &path).expect("the test directory is writable");
    let state = json!({"status": "created", "pid": 0}).to_string();
    let script = json!({"state": {"stdout": state}});
    fs::write(dir.join("runc.script.json"), script.to_string())
        .expect("the test directory is writable");
    Runtime { name: "fake", path }
}
