//! Tests of the sockets that may be mounted into containers, and of a file at `socket_path` that is
//! not a socket.

use crate::{
    doctor::nrictl,
    node::{Node, wait_until},
};
use std::{
    fs,
    io::Read,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
};

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

#[test]
fn the_directory_for_containers_has_no_control_socket_and_any_user_can_check_readiness() {
    let node = Node::new("");
    let nrid = node.start();
    let dir = node.state_dir().join("plugins");
    wait_until("the readiness socket", || dir.join("ready.sock").exists().then_some(()));
    assert_eq!(names(&dir), ["nri.sock", "ready.sock"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let modes = [dir.join("ready.sock"), dir.join("nri.sock"), dir.clone(), node.state_dir()];
    wait_until("the modes", || {
        (modes.each_ref().map(|path| mode(path)) == [0o666, 0o600, 0o755, 0o700]).then_some(())
    });
    let mut text = String::new();
    let mut probe = UnixStream::connect(dir.join("ready.sock")).unwrap();
    probe.read_to_string(&mut text).unwrap();
    assert_eq!(text, "ready\n");
    assert!(nrictl(&node, &["ready"]).status.success());
    // Plugins can connect at the current path, and at the path that earlier versions used.
    for path in [dir.join("nri.sock"), node.state_dir().join("nri.sock")] {
        UnixStream::connect(path).unwrap();
    }
    node.stop();
    nrid.wait_for_exit();
    assert_eq!(names(&dir), Vec::<String>::new());
    assert_eq!(nrictl(&node, &["ready"]).status.code(), Some(3));
}

#[test]
fn a_file_at_socket_path_that_is_not_a_socket_is_kept_and_nrid_starts() {
    let node = Node::new("");
    let path = node.path("shared.sock");
    fs::write(&path, "a file of the administrator").unwrap();
    node.configure_with("", &path);
    let nrid = node.start();
    assert!(!node.status().sockets.iter().any(|socket| socket.as_path() == path));
    node.stop();
    let output = nrid.wait_for_exit();
    assert!(output.contains("is not a socket"), "{output}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a file of the administrator");

    // A socket that a killed nrid left is replaced.
    fs::remove_file(&path).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let nrid = node.start();
    UnixStream::connect(&path).unwrap();
    node.stop();
    nrid.wait_for_exit();
    assert!(!path.exists());
}
