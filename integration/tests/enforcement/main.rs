//! Enforcement: the resources that plugins set are effective in the kernel during the whole life
//! cycle of a container. Each field is read from the kernel's files after every event that could
//! change it, on cgroup v1 and, in the virtual machines of `make test-cgroup2`, on cgroup v2.
//!
//! On slow machines, `NRI_TEST_FIELDS=A,B` selects the fields that plugins set, and
//! `NRI_TEST_OTHERS=N` limits the number of other fields that the engine updates in each container
//! (default: all). `random` documents the variables of the random updates.

mod bare;
mod device;
mod explain;
mod failed;
mod field;
mod forms;
mod idle;
mod life_cycle;
mod oom;
mod random;
mod swapless;
mod table;

use nri_integration::*;
use serde_json::Value;
use std::{fs, path::PathBuf};

/// Updates a container as an engine does, by `update --resources FILE`.
fn update(node: &Node, id: &str, resources: &Value) -> Ended {
    let file = resources_file(node, id, resources);
    node.call(&["update", "--resources", file.to_str().expect("paths of tests are UTF-8"), id])
}

/// Writes resources to a file and returns its path.
fn resources_file(node: &Node, id: &str, resources: &Value) -> PathBuf {
    let file = node.path(&format!("{id}.resources"));
    fs::write(&file, resources.to_string()).expect("the test directory is writable");
    file
}

/// Checks with `nrictl verify` that the values of plugins and engine are effective.
#[track_caller]
fn check_verified(node: &Node) {
    let verified = node.ctl(&["verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out(), verified.err());
}
