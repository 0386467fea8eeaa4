//! A creation that is refused leaves everything as it was.

use crate::node::{Node, example};
use nri_control::{Begin, Client, OsText, Reply, Request, Verb};
use std::{
    fs,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// The most that a document may have.
const MOST: usize = 16 << 20;

/// A bundle whose document has this many bytes. What fills it, no plugin sees: messages to plugins
/// have a limit of their own.
fn bundle(node: &Node, name: &str, size: usize) -> PathBuf {
    let dir = node.path(name);
    fs::create_dir(&dir).unwrap();
    let document = |filling: &str| format!(r#"{{"ociVersion":"1.0.2","filling":"{filling}"}}"#);
    let text = document(&"x".repeat(size - document("").len()));
    assert_eq!(text.len(), size);
    fs::write(dir.join("config.json"), text).unwrap();
    dir
}

/// Asks for a creation, by a runtime that knows no container. It is under way as long as the
/// connection.
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

/// All files below the state directory that name a container.
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
fn a_document_that_grows_too_large_is_not_written() {
    let node = Node::new("");
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join("10-adjust")).unwrap();
    fs::write(
        node.path("conf.d/10-adjust.conf"),
        "[create]\nannotations = { set = { added = 'yes' } }\n",
    )
    .unwrap();
    let nrid = node.start();
    let added = r#","annotations":{"added":"yes"}"#.len();

    let dir = bundle(&node, "large", MOST - added + 1);
    let before = fs::read(dir.join("config.json")).unwrap();
    let (Reply::Refused { message }, _) = create(&node, "too-large", &dir) else { panic!() };
    for word in
        ["too-large", "16777216 bytes", &format!("from {} bytes to {}", before.len(), MOST + 1)]
    {
        assert!(message.contains(word), "{word}: {message}");
    }
    assert!(fs::read(dir.join("config.json")).unwrap() == before, "as it was");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(records(&node, "too-large"), Vec::<PathBuf>::new());

    let dir = bundle(&node, "fitting", MOST - added);
    let (reply, under_way) = create(&node, "just-fits", &dir);
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    assert_eq!(fs::metadata(dir.join("config.json")).unwrap().len(), MOST as u64);
    assert_ne!(records(&node, "just-fits"), Vec::<PathBuf>::new());
    drop(under_way);
    node.stop();
    nrid.ended();
}
