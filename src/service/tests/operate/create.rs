//! Tests of refused creations, which must change nothing. Some are not refused under
//! `enforce = 'report'`.

use crate::node::{Node, TIMEOUT, example};
use nri_control::{Begin, Client, Exit, Finished, Reply, Request, Verb};
use nri_files::OsText;
use std::{
    ffi::OsStr,
    fs,
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// Maximum size of a `config.json` in bytes; equals `MAX_CONFIG_SIZE` of `nrid`.
const MAX_CONFIG_SIZE: usize = 16 << 20;

/// Creates a bundle with a `config.json` of `size` bytes. The padding is in a field that plugins do
/// not receive, because messages to plugins have another limit.
pub(crate) fn bundle(node: &Node, name: &str, size: usize) -> PathBuf {
    let config = |padding: &str| format!(r#"{{"ociVersion":"1.0.2","padding":"{padding}"}}"#);
    let text = config(&"x".repeat(size - config("").len()));
    assert_eq!(text.len(), size);
    bundle_with(node, name, &text)
}

/// Creates a bundle with this `config.json`.
pub(crate) fn bundle_with(node: &Node, name: &str, config: &str) -> PathBuf {
    let dir = node.path(name);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("config.json"), config).unwrap();
    dir
}

/// Requests a creation, with a runtime that has no containers. The creation stays in progress until
/// the returned client disconnects.
pub(crate) fn create(node: &Node, id: &str, bundle: &Path) -> (Reply, Client) {
    create_in(&[], node, id, bundle)
}

/// Requests a creation as [`create`] does, with an environment of the runtime.
pub(crate) fn create_in(
    environment: &[&str],
    node: &Node,
    id: &str,
    bundle: &Path,
) -> (Reply, Client) {
    let environment = environment.iter().map(|entry| OsStr::new(entry).into()).collect();
    create_with(node, id, bundle, Path::new("/bin/false"), environment)
}

fn create_with(
    node: &Node,
    id: &str,
    bundle: &Path,
    runtime: &Path,
    environment: Vec<OsText>,
) -> (Reply, Client) {
    let path = |path: &Path| OsText::from(path.as_os_str());
    let begin = Begin {
        verb: Verb::Create,
        id: id.into(),
        runtime: path(runtime),
        root: Some(path(&node.path("root"))),
        globals: Vec::new(),
        arguments: Vec::new(),
        bundle: Some(path(bundle)),
        config: None,
        cwd: path(bundle),
        environment,
        resources: None,
        flag: false,
        hook: None,
        follow: false,
    };
    let client = Client::connect(&node.socket()).unwrap();
    client.set_timeout(Some(TIMEOUT)).unwrap();
    let dir = fs::File::open(bundle).unwrap();
    let reply = client.call(&Request::Begin(Box::new(begin)), &[dir.as_fd()]).unwrap();
    (reply, client)
}

/// Returns all files below the state directory that contain a container's id, except the audit log.
pub(crate) fn records(node: &Node, id: &str) -> Vec<PathBuf> {
    let mut dirs = vec![node.state_dir()];
    let mut found = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry.file_type().unwrap().is_file() && entry.file_name() != "audit.log" {
                let text = fs::read(entry.path()).unwrap();
                let contains_id = String::from_utf8_lossy(&text).contains(id);
                found.extend(contains_id.then(|| entry.path()));
            }
        }
    }
    found
}

/// Returns the `config.json` that the runtime gets in place of the engine's, if there is one.
pub(crate) fn own_config(node: &Node, id: &str) -> Option<String> {
    let mut dirs = fs::read_dir(node.state_dir().join("bundles")).ok()?.flatten();
    let of_id = dirs.find(|dir| dir.file_name().to_string_lossy().starts_with(id))?;
    Some(fs::read_to_string(of_id.path().join("config.json")).unwrap())
}

#[test]
fn a_config_that_adjustments_make_too_large_is_not_written() {
    let node = Node::new("");
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join("10-adjust")).unwrap();
    fs::write(
        node.path("conf.d/10-adjust.conf"),
        "[create]\nannotations = { set = { added = 'yes' } }\n",
    )
    .unwrap();
    let nrid = node.start();
    let added_length = r#","annotations":{"added":"yes"}"#.len();

    let dir = bundle(&node, "large", MAX_CONFIG_SIZE - added_length + 1);
    let before = fs::read(dir.join("config.json")).unwrap();
    let (Reply::Refused { message }, _) = create(&node, "too-large", &dir) else { panic!() };
    for part in [
        "too-large",
        "16777216 bytes",
        &format!("from {} bytes to {}", before.len(), MAX_CONFIG_SIZE + 1),
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(fs::read(dir.join("config.json")).unwrap() == before, "config.json was changed");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "a file was left beside config.json");
    assert_eq!(records(&node, "too-large"), Vec::<PathBuf>::new());

    let dir = bundle(&node, "fitting", MAX_CONFIG_SIZE - added_length);
    let (reply, in_progress) = create(&node, "just-fits", &dir);
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    assert_eq!(own_config(&node, "just-fits").unwrap().len(), MAX_CONFIG_SIZE);
    assert_ne!(records(&node, "just-fits"), Vec::<PathBuf>::new());
    drop(in_progress);
    node.stop();
    nrid.wait_for_exit();
}

/// The cgroup of a process is unknown after the process has ended. This also covers a process that
/// `/proc` hides.
#[test]
fn a_creation_is_refused_if_the_cgroup_of_its_container_cannot_be_found() {
    for (config, is_refused) in [("", true), ("enforce = 'report'\n", false)] {
        let node = Node::new(config);
        std::os::unix::fs::symlink(example("adjust"), node.plugins().join("10-adjust")).unwrap();
        let rule = "[create.resources]\nshares = 512\n";
        fs::write(node.path("conf.d/10-adjust.conf"), rule).unwrap();
        let runtime = node.path("runtime");
        fs::write(&runtime, format!("#!/bin/sh\necho \"$*\" >>{:?}\nexit 1\n", node.path("calls")))
            .unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let nrid = node.start();
        let dir = bundle(&node, "b", 100);
        let (reply, client) = create_with(&node, "unseen", &dir, &runtime, Vec::new());
        assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
        // No process has this pid.
        let finished = Finished { exit: Exit::Code(0), pid: Some(i32::MAX), error: None };
        match client.call(&Request::Finished(finished), &[]).unwrap() {
            Reply::Refused { message } if is_refused => {
                assert!(message.contains("container cgroup unknown"), "{message}");
                let calls = fs::read_to_string(node.path("calls")).unwrap();
                assert!(calls.contains("delete"), "{calls}");
                assert_eq!(records(&node, "unseen"), Vec::<PathBuf>::new());
            }
            Reply::Done if !is_refused => {}
            other => panic!("{config:?}: {other:?}"),
        }
        drop(client);
        node.stop();
        nrid.wait_for_exit();
    }
}

/// Without the root directory, `nrid` does not know whether the id is in use. `nrid` must not rely
/// on the runtime to refuse an id in use: if the id is unused, the runtime would create the
/// container without plugins.
#[test]
fn a_creation_is_refused_if_the_root_directory_of_the_runtime_cannot_be_read() {
    let node = Node::new("");
    // A symbolic link to itself.
    std::os::unix::fs::symlink("root", node.path("root")).unwrap();
    let nrid = node.start();
    let dir = bundle(&node, "bundle", 100);
    let (Reply::Refused { message }, _) = create(&node, "unknown", &dir) else { panic!() };
    for part in ["unknown", &node.path("root").display().to_string(), "symbolic links"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(records(&node, "unknown"), Vec::<PathBuf>::new());
    node.stop();
    nrid.wait_for_exit();
}
