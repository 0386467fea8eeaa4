//! An `nrid` that has nothing to do leaves, where that is wanted.

use crate::node::{Node, wait_until};
use std::{os::unix::net::UnixStream, thread, time::Duration};

#[test]
fn it_leaves_when_it_is_told_to_and_nobody_is_there() {
    let node = Node::new("idle_timeout = '100ms'\n");
    node.plugin("10-a");
    let nrid = node.start();
    assert!(nrid.ended().contains("nothing to do"));
    assert!(!node.socket().exists());

    // Whoever is connected keeps it.
    let nrid = node.start();
    let plugin = UnixStream::connect(node.state_dir().join("nri.sock")).unwrap();
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(50));
        node.status();
    }
    drop(plugin);
    nrid.ended();
}

#[test]
fn it_stays_otherwise() {
    let node = Node::new("");
    let nrid = node.start();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(node.status().pid, nrid.id());
    // From the next reload on it does not.
    node.configure("idle_timeout = 0\n");
    nrid.signal(rustix::process::Signal::HUP);
    wait_until("its end", || (!node.socket().exists()).then_some(()));
    nrid.ended();
}
