//! Tests of configuration files that cannot be read to their end, such as `/dev/zero`.

use crate::node::Node;
use std::{fs, os::unix::fs::symlink, process::Command};

#[test]
fn nrid_is_ready_without_a_plugin_whose_configuration_has_no_end() {
    let node = Node::new("");
    for name in ["10-zero", "20-huge", "30-good"] {
        node.plugin(name);
    }
    symlink("/dev/zero", node.path("conf.d/10-zero.conf")).unwrap();
    // A sparse file of 1 TiB.
    fs::File::create(node.path("conf.d/20-huge.conf")).unwrap().set_len(1 << 40).unwrap();
    let nrid = node.start();
    let status = node.status();
    let found: Vec<_> = status
        .plugins
        .iter()
        .map(|p| (&*p.name, &*p.state, p.last_error.clone().unwrap_or_default()))
        .collect();
    let error = |name: &str, why: &str| {
        let file = node.path("conf.d").join(name);
        format!("configuration {} cannot be read: {why}", file.display())
    };
    let too_large = "the file is larger than the limit of 4194304 bytes";
    assert_eq!(
        found,
        [
            ("10-zero", "restarting", error("10-zero.conf", "not a regular file")),
            ("20-huge", "restarting", error("20-huge.conf", too_large)),
            ("30-good", "active", String::new()),
        ]
    );
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn check_names_a_configuration_file_without_an_end() {
    let node = Node::new("");
    let config = node.path("zero.toml");
    symlink("/dev/zero", &config).unwrap();
    let nrid = env!("CARGO_BIN_EXE_nrid");
    let output = Command::new(nrid).arg("--check").arg("--config").arg(&config).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = format!("configuration {}: not a regular file", config.display());
    assert!(!output.status.success() && error.contains(&expected), "{error}");
}
