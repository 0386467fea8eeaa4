//! Tests of files in the state directory that are removed while `nrid` runs.

use crate::{
    create::{bundle_with, create, records},
    doctor::nrictl,
    node::{Node, example, remove_directory, wait_until},
};
use nri_control::{Client, Reply};
use std::{
    fs,
    io::Read,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|meta| meta.ino())
}

/// Starts a second `nrid` for the same state directory, which must fail, and returns the error.
fn start_second(node: &Node) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nrid"));
    command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn removed_sockets_are_created_again() {
    let node = Node::new("");
    let shared = node.path("shared.sock");
    node.configure_with("", &shared);
    let nrid = node.start();
    let plugins = node.state_dir().join("nri.sock");
    for path in [node.socket(), plugins, shared] {
        fs::remove_file(&path).unwrap();
        wait_until("the socket", || UnixStream::connect(&path).ok());
        // A socket on which no process listens is replaced, too.
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        // A process that another test starts has the listener until it executes its program.
        let has_mode =
            || fs::metadata(&path).is_ok_and(|m| m.permissions().mode() & 0o777 == 0o600);
        wait_until("a socket of nrid", || UnixStream::connect(&path).ok().filter(|_| has_mode()));
        let line = format!("the socket was removed: created again socket={}", path.display());
        let count = || nrid.output().matches(&line).count();
        wait_until("both log lines", || (count() == 2).then_some(()));
    }
    wait_until("a reply", || Client::connect(&node.socket()).ok());
    assert_eq!(node.status().pid, nrid.id());
    node.stop();
    nrid.wait_for_exit();
    assert!(!node.socket().exists() && !node.path("shared.sock").exists());
}

/// A process of a tenant that has the state directory has locked the file.
#[test]
fn a_process_that_is_no_nrid_is_named_and_not_ended() {
    let node = Node::new("");
    let lock = node.state_dir().join("nrid.lock");
    let mut tenant = Command::new("flock");
    tenant.args(["--no-fork", "--verbose"]).arg(&lock).args(["sleep", "1000"]);
    let mut tenant = Killed(tenant.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let holder = || nri_host::lock_holder(&lock, "nrid");
    wait_until("the lock", || (holder() == Some(tenant.0.id() as i32)).then_some(()));
    for command in ["restart", "stop", "reload", "status"] {
        let output = nrictl(&node, &[command]);
        let error = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code();
        let is_named = error.contains("nrid.lock and is no nrid of this host");
        assert!(code == Some(1) && is_named, "{code:?} {error}");
        assert!(tenant.0.try_wait().unwrap().is_none(), "{command} ended the process: {error}");
    }
    let error = start_second(&node);
    assert!(error.contains("nrid.lock and is no nrid of this host"), "{error}");
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the text that the readiness socket sends; `None` if the socket is missing, or not
/// accessible to all users.
fn readiness(node: &Node) -> Option<String> {
    let path = node.state_dir().join("plugins/ready.sock");
    let is_open = fs::metadata(&path).ok()?.permissions().mode() & 0o777 == 0o666;
    let mut text = String::new();
    UnixStream::connect(&path).ok()?.read_to_string(&mut text).ok()?;
    is_open.then_some(text)
}

#[test]
fn removed_sockets_for_containers_are_created_again_with_their_modes() {
    let node = Node::new("");
    let nrid = node.start();
    let dir = node.state_dir().join("plugins");
    wait_until("the readiness socket", || readiness(&node));
    // The last path is the state directory itself.
    for removed in ["plugins/ready.sock", "plugins", ""] {
        let path = node.state_dir().join(removed);
        if path.is_dir() {
            remove_directory(&path);
        } else {
            fs::remove_file(&path).unwrap();
        }
        wait_until("the socket for plugins", || UnixStream::connect(dir.join("nri.sock")).ok());
        let mode = fs::metadata(&dir).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o755, "{removed}");
        assert_eq!(wait_until("the readiness socket", || readiness(&node)), "ready\n");
    }
    node.stop();
    nrid.wait_for_exit();
    assert!(!dir.join("ready.sock").exists());
}

#[test]
fn a_removed_state_directory_is_created_again_with_its_records() {
    let node = Node::new("");
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join("10-adjust")).unwrap();
    fs::write(node.path("conf.d/10-adjust.conf"), "[create]\nenv = { set = { ADDED = 'yes' } }\n")
        .unwrap();
    let nrid = node.start();
    let config = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"cwd":"/","env":["A=b"]}}"#;
    let bundle = bundle_with(&node, "bundle", config);
    let (reply, in_progress) = create(&node, "kept", &bundle);
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    let files = records(&node, "kept");
    let marker = node.state_dir().join("exec/kept.json");
    let exec = fs::read_to_string(&marker).unwrap();
    let plugin = node.status().plugins[0].pid;
    assert!(!files.is_empty() && exec.contains("ADDED") && plugin.is_some());
    let lock = node.state_dir().join("nrid.lock");
    let first_lock = inode(&lock);

    remove_directory(&node.state_dir());
    // A second nrid must not lock the new directory before the first one has done so.
    let error = start_second(&node);
    assert!(error.contains("runs already"), "{error}");
    wait_until("the control socket", || Client::connect(&node.socket()).ok());
    wait_until("the records", || (records(&node, "kept") == files).then_some(()));
    wait_until("the marker for exec", || {
        fs::read_to_string(&marker).ok().filter(|text| *text == exec)
    });
    assert_ne!(inode(&lock), first_lock);
    let status = node.status();
    assert_eq!((status.pid, status.plugins[0].pid), (nrid.id(), plugin));
    assert!(start_second(&node).contains("runs already"));
    drop(in_progress);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn nrid_ends_when_another_one_has_locked_the_new_state_directory() {
    let node = Node::new("");
    node.plugin("10-a");
    let nrid = node.start();
    let new: PathBuf = node.path("new");
    fs::create_dir(&new).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o700)).unwrap();
    let lock = fs::File::create(new.join("nrid.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    fs::rename(node.state_dir(), node.path("old")).unwrap();
    fs::rename(&new, node.state_dir()).unwrap();
    let output = nrid.wait_for_exit();
    assert!(output.contains("another nrid has created it again"), "{output}");
    // The first nrid has created nothing in the directory that the test, as another nrid, locked.
    // Only the end of its plugin is in the audit log of that directory.
    let mut files: Vec<_> =
        fs::read_dir(node.state_dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    files.retain(|file| file != "audit.log");
    assert_eq!(files, ["nrid.lock"]);
}
