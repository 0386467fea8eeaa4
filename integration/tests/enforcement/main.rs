//! What plugins set is what the kernel has, for a container's whole life: each field of the
//! resources, read from the kernel's files after each thing that could change it. On cgroup v1
//! here; the same program runs in the guests of `make test-cgroup2`.
//!
//! For slow guests, `NRI_TEST_FIELDS=A,B`: only these fields are set by plugins;
//! `NRI_TEST_OTHERS=N`: in how many others the engine updates each container (default: all). For
//! the random updates see `random`.

mod bare;
mod device;
mod failed;
mod field;
mod forms;
mod life_cycle;
mod oom;
mod random;
mod table;

use nri_integration::*;
use serde_json::Value;
use std::{fs, path::PathBuf};

/// Updates a container by resources in a file, as an engine would.
fn update(node: &Node, id: &str, resources: &Value) -> Ended {
    let file = resources_file(node, id, resources);
    node.call(&["update", "--resources", file.to_str().expect("our paths are UTF-8"), id])
}

/// A file with resources.
fn resources_file(node: &Node, id: &str, resources: &Value) -> PathBuf {
    let file = node.path(&format!("{id}.resources"));
    fs::write(&file, resources.to_string()).expect("our directory");
    file
}

/// Checks by `nrictl verify` that the values of plugins and engine are effective.
#[track_caller]
fn check_verified(node: &Node) {
    let verified = node.ctl(&["verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out(), verified.err());
}
