//! Another program takes the place of `nrid`, in its process and with its sockets.

use crate::node::{Node, Nrid, wait_until};
use nri_control::{Client, ClientError, Reply, Request, Versioned, receive, send};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs,
    io::ErrorKind,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// Puts a file where the program is, as a package manager does: under another name, and then in its
/// place.
fn put(node: &Node, from: &Path) -> PathBuf {
    let (new, path) = (node.path("nrid.new"), node.path("nrid"));
    fs::copy(from, &new).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, &path).unwrap();
    path
}

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_nrid").into()
}

/// A script in place of the program.
fn put_script(node: &Node, script: &str) {
    let text = node.path("script");
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    put(node, &text);
}

fn inode(path: impl AsRef<Path>) -> u64 {
    fs::metadata(path).unwrap().ino()
}

fn exe(nrid: &Nrid) -> u64 {
    inode(format!("/proc/{}/exe", nrid.id()))
}

fn restart(node: &Node, program: Option<&Path>) -> Result<(), String> {
    let client = Client::connect(&node.socket()).unwrap();
    client.set_timeout(Some(Duration::from_secs(60))).unwrap();
    match client.call(&Request::Restart { program: program.map(Into::into) }, &[]).unwrap() {
        Reply::Done => {
            assert!(client.wait_closed());
            Ok(())
        }
        Reply::Refused { message } => Err(message),
        other => panic!("{other:?}"),
    }
}

fn plugin_pid(node: &Node) -> Option<u32> {
    node.status().plugins.iter().find(|p| p.name == "10-a" && p.state == "active")?.pid
}

/// What a program of another release says, and hears.
fn say(node: &Node, request: &Value) -> Reply {
    let stream = UnixStream::connect(node.socket()).unwrap();
    send(&stream, request.to_string().as_bytes(), &[]).unwrap();
    let (payload, _) = receive(&stream).unwrap();
    serde_json::from_slice::<Versioned<Reply>>(&payload).unwrap().message
}

#[test]
fn by_hand_nobody_is_refused_meanwhile() {
    let node = Node::new("");
    node.plugin("10-a");
    let nrid = node.start_program(&put(&node, &program()));
    let sockets = || ["control.sock", "nri.sock"].map(|name| inode(node.state_dir().join(name)));
    let (before, plugin) = (sockets(), plugin_pid(&node).unwrap());
    let (over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for name in ["control.sock", "nri.sock"] {
            let (path, over, answers) = (node.state_dir().join(name), &over, &answers);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    // Whoever connects has a place, and an answer from one of both; but for who was
                    // accepted and not yet heard.
                    let client = match Client::connect(&path) {
                        Err(ClientError::Connect(e)) => {
                            panic!("{}: {e} ({:?})", path.display(), e.kind())
                        }
                        client => client.unwrap(),
                    };
                    if name == "control.sock" && client.call(&Request::Status, &[]).is_ok() {
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let mut old = exe(&nrid);
        for _ in 0..5 {
            put(&node, &program());
            assert_eq!(restart(&node, None), Ok(()));
            wait_until("the next one", || plugin_pid(&node));
            assert_ne!(exe(&nrid), old);
            old = exe(&nrid);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(answers.load(Ordering::Relaxed) > 5);
    assert_eq!(node.status().pid, nrid.id());
    assert_eq!(sockets(), before);
    assert_ne!(plugin_pid(&node), Some(plugin), "it was launched anew");
    let second = std::process::Command::new(program())
        .arg("--config")
        .arg(node.config())
        .arg("--state-dir")
        .arg(node.state_dir())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("runs already"),
        "the lock is kept: {second:?}"
    );
    node.stop();
    nrid.ended();
    assert!(
        !node.socket().exists() && !node.state_dir().join("nri.sock").exists(),
        "they are still its own"
    );
}

#[test]
fn another_program_by_its_path() {
    let node = Node::new("");
    let nrid = node.start_program(&put(&node, &program()));
    assert_eq!(restart(&node, Some(&program())), Ok(()));
    wait_until("the other one", || (exe(&nrid) == inode(program())).then_some(()));
    assert_eq!(node.status().program.unwrap().as_path(), program());
    node.stop();
    nrid.ended();
}

#[test]
fn a_caller_of_another_version_brings_in_what_is_installed_and_once() {
    let node = Node::new("");
    node.plugin("10-a");
    let path = put(&node, &program());
    let nrid = node.start_program(&path);
    let first = exe(&nrid);
    let status = json!({"protocol": 1, "version": "99.0.0", "message": "status"});
    let Reply::Status(said) = say(&node, &status) else { panic!() };
    assert!(!said.program_replaced);
    // Nothing else is installed, so that there is nothing to do.
    put(&node, &program());
    let Reply::Status(said) = say(&node, &json!({"protocol": 1, "message": "status"})) else {
        panic!()
    };
    assert!(said.program_replaced);
    assert_eq!(exe(&nrid), first, "who does not tell a version is no reason");
    let Reply::Status(_) = say(&node, &status) else { panic!("it is answered as ever") };
    wait_until("the new one", || (exe(&nrid) == inode(&path)).then_some(()));
    let second = plugin_pid(&node);
    for _ in 0..5 {
        let Reply::Status(said) = say(&node, &status) else { panic!() };
        assert!(!said.program_replaced && said.restart_error.is_none());
    }
    assert_eq!(plugin_pid(&node), second, "no restart for a caller that stays of another version");
    node.stop();
    nrid.ended();
}

#[test]
fn a_caller_of_another_protocol_is_told_to_come_again() {
    let node = Node::new("");
    let nrid = node.start_program(&put(&node, &program()));
    let other = json!({"protocol": 99, "version": "99.0.0", "message": {"new": {"in": "that"}}});
    let restarting = || match say(&node, &other) {
        Reply::OtherVersion { restarting, .. } => restarting,
        reply => panic!("{reply:?}"),
    };
    assert!(!restarting(), "this is what is installed");
    let path = put(&node, &program());
    assert!(restarting());
    wait_until("the new one", || (exe(&nrid) == inode(&path)).then_some(()));
    assert!(!restarting());
    // Whoever speaks another protocol can get rid of it.
    let stop = json!({"protocol": 99, "message": "stop"});
    assert_eq!(say(&node, &stop), Reply::Done);
    nrid.ended();
}

#[test]
fn what_cannot_take_over_does_not() {
    let node = Node::new("");
    node.plugin("10-a");
    let path = put(&node, &program());
    let nrid = node.start_program(&path);
    let plugin = plugin_pid(&node);
    let refused = |word: &str| {
        let error = restart(&node, None).unwrap_err();
        assert!(error.contains(word), "{word}: {error}");
        assert_eq!(node.status().restart_error, Some(error));
        assert_eq!(plugin_pid(&node), plugin, "nothing has changed");
    };
    fs::remove_file(&path).unwrap();
    refused("No such file");
    put_script(&node, "echo 'not I' >&2; exit 1");
    refused("not I");
    put_script(&node, "exit 0");
    refused("--check");
    put(&node, &program());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    refused("writable by everybody");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(node.config(), "nonsense = 1\n").unwrap();
    refused("line 1, column 1");
    node.configure("");
    assert_eq!(restart(&node, None), Ok(()));
    wait_until("the next one", || plugin_pid(&node));
    assert_eq!(node.status().restart_error, None);
    node.stop();
    nrid.ended();
}

#[test]
fn what_goes_away_at_the_last_moment_leaves_the_old_one_at_work() {
    let node = Node::new("");
    node.plugin("10-a");
    let nrid = node.start_program(&put(&node, &program()));
    let (old, plugin) = (exe(&nrid), plugin_pid(&node));
    put_script(&node, "echo 'nrid 99'; rm \"$0\"");
    assert_eq!(restart(&node, None), Ok(()));
    wait_until("the old one", || plugin_pid(&node).filter(|pid| Some(*pid) != plugin));
    assert_eq!(exe(&nrid), old);
    let error = node.status().restart_error.unwrap();
    assert!(error.contains("No such file"), "{error}");
    // It can still be replaced, and ended.
    put(&node, &program());
    assert_eq!(restart(&node, None), Ok(()));
    wait_until("the new one", || (exe(&nrid) != old).then_some(()));
    wait_until("its plugin", || plugin_pid(&node));
    nrid.signal(Signal::TERM);
    assert!(nrid.ended().contains("going on as before"));
}

#[test]
fn sockets_that_moved_and_those_that_are_not_wanted_any_more() {
    let node = Node::new("");
    let (first, second) = (node.path("first.sock"), node.path("second.sock"));
    node.configure_with("", &first);
    let nrid = node.start_program(&put(&node, &program()));
    UnixStream::connect(&first).unwrap();
    node.configure_with("", &second);
    restart(&node, None).unwrap();
    wait_until("the other socket", || UnixStream::connect(&second).ok());
    assert_eq!(UnixStream::connect(&first).unwrap_err().kind(), ErrorKind::NotFound);
    node.configure_with("disable_connections = true\n", &second);
    restart(&node, None).unwrap();
    wait_until("no sockets", || node.status().sockets.is_empty().then_some(()));
    assert!(!second.exists() && !node.state_dir().join("nri.sock").exists());
    node.stop();
    nrid.ended();
}
