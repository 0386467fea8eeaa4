//! Tests of the shipped plugins that inject something, on real runtimes. Tests of others are in
//! `privileges/shipped.rs`.

mod injectors;
mod network;
mod rules;
mod v010;

use nri_integration::*;
use std::fs;

/// Returns a node with the policy of a new installation: plugins have no capabilities.
fn node(runtime: &Runtime) -> Node {
    let node = Node::new(runtime);
    let policy = "\n[[plugin]]\nmatch = '*'\ncapabilities = []\nno_new_privs = true\n";
    let text = fs::read_to_string(node.config()).unwrap() + policy;
    fs::write(node.config(), text).unwrap();
    node
}

/// Installs a shipped plugin, which `nrid` launches with these arguments.
fn install(node: &Node, name: &str, arguments: &str) {
    let program = node.program(&format!("nri-{name}"));
    let script = format!("#!/bin/sh\nexec '{}' {arguments}\n", program.display());
    write_program(&node.path("plugins").join(format!("10-{name}")), &script);
}
