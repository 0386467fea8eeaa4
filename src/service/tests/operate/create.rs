//! Refused creations change nothing.

use crate::node::{Node, example};
use nri_control::{Begin, Client, OsText, Reply, Request, Verb};
use std::{
    fs,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Maximum size of a `config.json` in bytes.
const MAX_CONFIG_SIZE: usize = 16 << 20;

/// Creates a bundle with a `config.json` of `size` bytes. The padding is in a field that plugins do
/// not receive, because messages to plugins have another limit.
fn bundle(node: &Node, name: &str, size: usize) -> PathBuf {
    let dir = node.path(name);
    fs::create_dir(&dir).unwrap();
    let config = |filling: &str| format!(r#"{{"ociVersion":"1.0.2","filling":"{filling}"}}"#);
    let text = config(&"x".repeat(size - config("").len()));
    assert_eq!(text.len(), size);
    fs::write(dir.join("config.json"), text).unwrap();
    dir
}

/// Requests a creation, with a runtime that knows no container. The creation is in progress as long
/// as the returned client is connected.
fn create(node: &Node, id: &str, bundle: &Path) -> (Reply, Client) {
    let path = |path: &Path| OsText::from(path.as_os_str());
    let begin = Begin {
        verb: Verb::Create,
        id: id.into(),
        runtime: path(Path::new("/bin/false")),
        root: Some(path(&node.path("root"))),
        globals: Vec::new(),
        arguments: Vec::new(),
        bundle: Some(path(bundle)),
        config: None,
        cwd: path(bundle),
        environment: Vec::new(),
        resources: None,
        flag: false,
        hook: None,
    };
    let client = Client::connect(&node.socket()).unwrap();
    let dir = fs::File::open(bundle).unwrap();
    let reply = client.call(&Request::Begin(Box::new(begin)), &[dir.as_fd()]).unwrap();
    (reply, client)
}

/// Returns all files below the state directory that contain a container's id.
fn records(node: &Node, id: &str) -> Vec<PathBuf> {
    let mut dirs = vec![node.state_dir()];
    let mut found = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry.file_type().unwrap().is_file() {
                let text = fs::read(entry.path()).unwrap();
                let named = String::from_utf8_lossy(&text).contains(id);
                found.extend(named.then(|| entry.path()));
            }
        }
    }
    found
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
    let added = r#","annotations":{"added":"yes"}"#.len();

    let dir = bundle(&node, "large", MAX_CONFIG_SIZE - added + 1);
    let before = fs::read(dir.join("config.json")).unwrap();
    let (Reply::Refused { message }, _) = create(&node, "too-large", &dir) else { panic!() };
    for word in [
        "too-large",
        "16777216 bytes",
        &format!("from {} bytes to {}", before.len(), MAX_CONFIG_SIZE + 1),
    ] {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert!(fs::read(dir.join("config.json")).unwrap() == before, "config.json is unchanged");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(records(&node, "too-large"), Vec::<PathBuf>::new());

    let dir = bundle(&node, "fitting", MAX_CONFIG_SIZE - added);
    let (reply, in_progress) = create(&node, "just-fits", &dir);
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    assert_eq!(fs::metadata(dir.join("config.json")).unwrap().len(), MAX_CONFIG_SIZE as u64);
    assert_ne!(records(&node, "just-fits"), Vec::<PathBuf>::new());
    drop(in_progress);
    node.stop();
    nrid.ended();
}
