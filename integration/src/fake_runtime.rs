//! A runtime that runs nothing, for tests in which the containers are only numbers: the program
//! `fake_runtime` of `tests`. What it says of each container is that it was created and has no
//! process, so none is left behind.

use crate::{Runtime, programs};
use serde_json::json;
use std::{fs, os::unix::fs::symlink, path::Path};

/// Puts it into a directory.
///
/// # Panics
/// It cannot be put there, or is not built.
pub fn fake_runtime(dir: &Path) -> Runtime {
    let path = dir.join("runc");
    symlink(programs::ours("fake_runtime"), &path).expect("our directory");
    let state = json!({"status": "created", "pid": 0}).to_string();
    let script = json!({"state": {"stdout": state}});
    fs::write(dir.join("runc.script.json"), script.to_string()).expect("our directory");
    Runtime { name: "fake", path }
}
