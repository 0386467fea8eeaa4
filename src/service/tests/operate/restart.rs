//! Tests of restarts: another program replaces `nrid`, in the same process and with the same
//! sockets.

use crate::{
    doctor::{findings, nrictl},
    node::{Node, Nrid, example, wait_until},
};
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
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// Installs a file at the path of the program as a package manager does: writes the file under
/// another name, and renames it. Another process writes it: a child that another test forks
/// meanwhile would keep it open for writing, and executing it would fail (ETXTBSY).
fn install(node: &Node, from: &Path) -> PathBuf {
    let (new, path) = (node.path("nrid.new"), node.path("nrid"));
    assert!(Command::new("cp").arg(from).arg(&new).status().unwrap().success());
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, &path).unwrap();
    path
}

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_nrid").into()
}

/// Installs a script at the path of the program.
fn install_script(node: &Node, script: &str) {
    let file = node.path("script");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    install(node, &file);
}

fn inode(path: impl AsRef<Path>) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Returns the inode of the program that `nrid` runs.
fn exe(nrid: &Nrid) -> u64 {
    inode(format!("/proc/{}/exe", nrid.id()))
}

pub(crate) fn restart(node: &Node, program: Option<&Path>) -> Result<(), String> {
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

/// Sends a request as a program of another release would, and returns the reply.
fn call_raw(node: &Node, request: &Value) -> Reply {
    let stream = UnixStream::connect(node.socket()).unwrap();
    send(&stream, request.to_string().as_bytes(), &[]).unwrap();
    let (payload, _) = receive(&stream).unwrap();
    serde_json::from_slice::<Versioned<Reply>>(&payload).unwrap().message
}

#[test]
fn no_connection_is_refused_during_a_requested_restart() {
    let node = Node::new("");
    node.plugin("10-a");
    let nrid = node.start_program(&install(&node, &program()));
    let sockets = || ["control.sock", "nri.sock"].map(|name| inode(node.state_dir().join(name)));
    let (before, plugin) = (sockets(), plugin_pid(&node).unwrap());
    let (done, replies) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for name in ["control.sock", "nri.sock"] {
            let (path, done, replies) = (node.state_dir().join(name), &done, &replies);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    // Every connection must be accepted. A call may fail: the restart may come
                    // after its connection was accepted and before its request was read.
                    let client = match Client::connect(&path) {
                        Err(ClientError::Connect(e)) => {
                            panic!("{}: {e} ({:?})", path.display(), e.kind())
                        }
                        client => client.unwrap(),
                    };
                    if name == "control.sock" && client.call(&Request::Status, &[]).is_ok() {
                        replies.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let mut old = exe(&nrid);
        for _ in 0..5 {
            install(&node, &program());
            assert_eq!(restart(&node, None), Ok(()));
            wait_until("the plugin after the restart", || plugin_pid(&node));
            assert_ne!(exe(&nrid), old);
            old = exe(&nrid);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(replies.load(Ordering::Relaxed) > 5, "fewer replies than restarts");
    assert_eq!(node.status().pid, nrid.id());
    assert_eq!(sockets(), before);
    assert_ne!(plugin_pid(&node), Some(plugin), "the plugin was not launched again");
    let second = Command::new(program())
        .arg("--config")
        .arg(node.config())
        .arg("--state-dir")
        .arg(node.state_dir())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("runs already"),
        "the restarted nrid does not hold the lock: {second:?}"
    );
    node.stop();
    nrid.wait_for_exit();
    assert!(
        !node.socket().exists() && !node.state_dir().join("nri.sock").exists(),
        "the restarted nrid did not remove its sockets"
    );
}

#[test]
fn a_restart_may_name_another_program() {
    let node = Node::new("");
    let nrid = node.start_program(&install(&node, &program()));
    assert_eq!(restart(&node, Some(&program())), Ok(()));
    wait_until("the other program", || (exe(&nrid) == inode(program())).then_some(()));
    assert_eq!(node.status().program.unwrap().as_path(), program());
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn a_caller_of_another_version_causes_one_restart_after_an_upgrade() {
    let node = Node::new("");
    node.plugin("10-a");
    let path = install(&node, &program());
    let nrid = node.start_program(&path);
    let first = exe(&nrid);
    let status = json!({"protocol": 1, "version": "99.0.0", "message": "status"});
    let Reply::Status(reported) = call_raw(&node, &status) else { panic!() };
    assert!(!reported.program_replaced);
    // nrid has not restarted, because it already runs the installed program.
    install(&node, &program());
    let Reply::Status(reported) = call_raw(&node, &json!({"protocol": 1, "message": "status"}))
    else {
        panic!()
    };
    assert!(reported.program_replaced);
    assert_eq!(exe(&nrid), first, "a request without a version caused a restart");
    let Reply::Status(_) = call_raw(&node, &status) else { panic!("no reply") };
    wait_until("the new program", || (exe(&nrid) == inode(&path)).then_some(()));
    let second = plugin_pid(&node);
    for _ in 0..5 {
        let Reply::Status(reported) = call_raw(&node, &status) else { panic!() };
        assert!(!reported.program_replaced && reported.restart_error.is_none());
    }
    assert_eq!(plugin_pid(&node), second, "a caller of another version caused a second restart");
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn the_reply_to_a_caller_of_another_protocol_says_whether_nrid_restarts() {
    let node = Node::new("");
    let nrid = node.start_program(&install(&node, &program()));
    let message = json!({"unknown": {"field": "value"}});
    let other = json!({"protocol": 99, "version": "99.0.0", "message": message});
    let restarting = || match call_raw(&node, &other) {
        Reply::OtherVersion { restarting, .. } => restarting,
        reply => panic!("{reply:?}"),
    };
    assert!(!restarting(), "nrid restarts into the program that it runs already");
    let path = install(&node, &program());
    assert!(restarting());
    wait_until("the new program", || (exe(&nrid) == inode(&path)).then_some(()));
    assert!(!restarting());
    // A caller of another protocol can stop nrid.
    let stop = json!({"protocol": 99, "message": "stop"});
    assert_eq!(call_raw(&node, &stop), Reply::Done);
    nrid.wait_for_exit();
}

#[test]
fn a_program_that_fails_its_check_does_not_replace_nrid() {
    let node = Node::new("");
    node.plugin("10-a");
    let path = install(&node, &program());
    let nrid = node.start_program(&path);
    let plugin = plugin_pid(&node);
    let check_refused = |part: &str| {
        let error = restart(&node, None).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
        assert_eq!(node.status().restart_error, Some(error));
        assert_eq!(plugin_pid(&node), plugin, "the plugin was restarted, or has ended");
    };
    fs::remove_file(&path).unwrap();
    check_refused("No such file");
    install_script(&node, "echo 'check failed' >&2; exit 1");
    check_refused("check failed");
    // A program that accepts `--check`, but does not print the version of an nrid.
    install_script(&node, "exit 0");
    check_refused("--check");
    install(&node, &program());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    check_refused("writable by everybody");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(node.config(), "nonsense = 1\n").unwrap();
    check_refused("line 1, column 1");
    node.configure("");
    assert_eq!(restart(&node, None), Ok(()));
    wait_until("the plugin after the restart", || plugin_pid(&node));
    assert_eq!(node.status().restart_error, None);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn nrid_continues_if_the_next_program_disappears_after_its_check() {
    let node = Node::new("");
    node.plugin("10-a");
    let nrid = node.start_program(&install(&node, &program()));
    let (old, plugin) = (exe(&nrid), plugin_pid(&node));
    // The script passes the check, and then removes itself.
    install_script(&node, "echo 'nrid 99'; rm \"$0\"");
    assert_eq!(restart(&node, None), Ok(()));
    wait_until("the plugin of the old program", || {
        plugin_pid(&node).filter(|pid| Some(*pid) != plugin)
    });
    assert_eq!(exe(&nrid), old);
    let error = node.status().restart_error.unwrap();
    assert!(error.contains("No such file"), "{error}");
    // nrid can still be restarted and ended.
    install(&node, &program());
    assert_eq!(restart(&node, None), Ok(()));
    wait_until("the new program", || (exe(&nrid) != old).then_some(()));
    wait_until("the plugin of the new program", || plugin_pid(&node));
    nrid.signal(Signal::TERM);
    assert!(nrid.wait_for_exit().contains("restart failed, nrid continues"));
}

#[test]
fn a_restart_moves_and_removes_plugin_sockets() {
    let node = Node::new("");
    let (first, second) = (node.path("first.sock"), node.path("second.sock"));
    node.configure_with("", &first);
    let nrid = node.start_program(&install(&node, &program()));
    UnixStream::connect(&first).unwrap();
    node.configure_with("", &second);
    restart(&node, None).unwrap();
    wait_until("the other socket", || UnixStream::connect(&second).ok());
    // The first socket may be removed a moment after the second one is created.
    let error = wait_until("the removal of the first socket", || UnixStream::connect(&first).err());
    assert_eq!(error.kind(), ErrorKind::NotFound);
    node.configure_with("disable_connections = true\n", &second);
    restart(&node, None).unwrap();
    wait_until("a status without sockets", || node.status().sockets.is_empty().then_some(()));
    assert!(!second.exists() && !node.state_dir().join("nri.sock").exists());
    node.stop();
    nrid.wait_for_exit();
}

/// The next program does not go on without a plugin that is required.
#[test]
fn a_restart_whose_next_program_does_not_start_says_why_and_is_no_unclean_end() {
    let node = Node::new("[[plugin]]\nmatch = '10-must'\nrequired = true\n");
    node.plugin("10-must");
    let nrid = node.start();
    fs::remove_file(node.plugins().join("10-must")).unwrap();
    install_failing_plugin(&node, "10-must");
    let output = nrictl(&node, &["restart"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["nrid has ended: ", "10-must", "exited with code 5", "`nrictl start`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(nrid);
    assert_eq!(findings(&node, "nrid-ended"), [""; 0]);
    assert_eq!(findings(&node, "nrid-start-failed").len(), 1);
    fs::remove_file(node.plugins().join("10-must")).unwrap();
    node.plugin("10-must");
    let _nrid = node.start();
    assert_eq!(node.status().unclean_end, None);
    assert_eq!(findings(&node, "nrid-start-failed"), [""; 0]);
}

#[test]
fn an_nrid_continues_if_a_required_plugin_has_refused_its_configuration() {
    let node = Node::new("[[plugin]]\nmatch = '10-must'\nrequired = true\n");
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join("10-must")).unwrap();
    let nrid = node.start();
    let conf = node.path("conf.d/10-must.conf");
    fs::write(&conf, "nosuch = 1\n").unwrap();
    assert_eq!(nrictl(&node, &["reload"]).status.code(), Some(4));
    let output = nrictl(&node, &["restart"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["10-must refuses its configuration: ", "`nosuch`", "`nrictl reload`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(node.status().pid, nrid.id());
    assert_eq!(node.status().missing_required, [""; 0]);
    fs::remove_file(conf).unwrap();
    assert_eq!(nrictl(&node, &["reload"]).status.code(), Some(0));
    restart(&node, None).unwrap();
}

#[test]
fn a_restart_names_plugins_that_do_not_come_back() {
    let node = Node::new("");
    std::os::unix::fs::symlink(example("adjust"), node.plugins().join("10-a")).unwrap();
    let nrid = node.start();
    fs::write(node.path("conf.d/10-a.conf"), "nosuch = 1\n").unwrap();
    let output = nrictl(&node, &["restart"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let failed = text.lines().find(|line| line.starts_with("10-a ") && line.contains("failed: "));
    assert!(failed.is_some_and(|line| line.contains("`nosuch`")), "{text}");
    drop(nrid);
}

/// Installs a plugin that ends at its start.
fn install_failing_plugin(node: &Node, name: &str) {
    let file = node.plugins().join(name);
    fs::write(&file, "#!/bin/sh\nexit 5\n").unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}
