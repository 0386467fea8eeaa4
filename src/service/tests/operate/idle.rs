//! Tests of `idle_timeout`, after which `nrid` ends.

use crate::node::{Node, wait_until};
use std::{os::unix::net::UnixStream, thread, time::Duration};

#[test]
fn nrid_ends_after_idle_timeout_and_not_while_a_plugin_is_connected() {
    let node = Node::new("idle_timeout = '100ms'\n");
    node.plugin("10-a");
    let nrid = node.start();
    assert!(nrid.wait_for_exit().contains("idle timeout reached"));
    assert!(!node.socket().exists());

    // A connected plugin prevents the end, also after five times the idle timeout.
    let nrid = node.start();
    let plugin = UnixStream::connect(node.state_dir().join("nri.sock")).unwrap();
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(50));
        node.status();
    }
    drop(plugin);
    nrid.wait_for_exit();
}

#[test]
fn nrid_does_not_end_without_an_idle_timeout() {
    let node = Node::new("");
    let nrid = node.start();
    // An nrid with an idle timeout of 0 would end in this time.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(node.status().pid, nrid.id());
    // A reload can set a timeout.
    node.configure("idle_timeout = 0\n");
    nrid.signal(rustix::process::Signal::HUP);
    wait_until("nrid to end", || (!node.socket().exists()).then_some(()));
    nrid.wait_for_exit();
}
