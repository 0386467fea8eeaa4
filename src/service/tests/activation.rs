//! Tests of socket activation: systemd passes listening sockets to `nrid`, and the sockets must
//! stay when `nrid` ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: clippy exempts only functions with #[test]"
)]

use command_fds::{CommandFdExt, FdMapping};
use nri_control::{Client, Reply, Request, Status};
use std::{
    fs,
    io::Read,
    os::{
        fd::AsFd,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::{UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time limit of every wait in these tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A stand-in for systemd: listens in the state directory, and passes the sockets to `nrid`.
struct Unit {
    dir: TempDir,
    sockets: Vec<(PathBuf, UnixListener)>,
}

impl Unit {
    /// Listens on sockets with these names. `config` is added to the configuration.
    fn new(names: &[&str], config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("s")).unwrap();
        fs::create_dir(dir.path().join("plugins")).unwrap();
        // `socket_path` is empty, because its default is a path outside of the test's directory.
        let base = format!(
            "plugin_path = {:?}\nsocket_path = \"\"\nstart_timeout = 20\n",
            dir.path().join("plugins")
        );
        fs::write(dir.path().join("config.toml"), base + config).unwrap();
        let listen = |name: &&str| {
            let path = dir.path().join("s").join(name);
            let listener = UnixListener::bind(&path).unwrap();
            (path, listener)
        };
        let sockets = names.iter().map(listen).collect();
        Self { dir, sockets }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("s").join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn arguments(&self) -> Vec<PathBuf> {
        vec![
            "--config".into(),
            self.dir.path().join("config.toml"),
            "--state-dir".into(),
            self.path(""),
        ]
    }

    /// Returns the command for `nrid` with the passed sockets. `pid` and `count` are the values of
    /// `LISTEN_PID` and `LISTEN_FDS`. A shell replaces itself by `nrid`, so that `$$` is the
    /// process id of `nrid`.
    fn activated(&self, pid: &str, count: usize) -> Command {
        let mut command = self.command("sh");
        let script =
            format!("LISTEN_PID={pid} LISTEN_FDS={count} LISTEN_FDNAMES=a:b exec \"$0\" \"$@\"");
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_nrid")).args(self.arguments());
        let map = |(n, (_, listener)): (usize, &(PathBuf, UnixListener))| FdMapping {
            parent_fd: listener.as_fd().try_clone_to_owned().unwrap(),
            child_fd: 3 + i32::try_from(n).unwrap(),
        };
        command.fd_mappings(self.sockets.iter().enumerate().map(map).collect()).unwrap();
        command
    }

    /// Returns the command for `nrid` without passed sockets.
    fn without_sockets(&self, options: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_nrid"));
        command.args(options).args(self.arguments());
        command
    }

    fn status(&self) -> Box<Status> {
        let client = Client::connect(&self.path("control.sock")).unwrap();
        client.set_timeout(Some(TIMEOUT)).unwrap();
        match client.call(&Request::Status, &[]).unwrap() {
            Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    fn stop(&self) {
        let client = Client::connect(&self.path("control.sock")).unwrap();
        client.set_timeout(Some(TIMEOUT)).unwrap();
        client.call(&Request::Stop, &[]).unwrap();
        assert!(client.wait_closed());
    }

    /// Returns the inodes of the sockets.
    fn inodes(&self) -> Vec<u64> {
        self.sockets.iter().map(|(path, _)| fs::metadata(path).unwrap().ino()).collect()
    }
}

/// A running program, killed when it is dropped.
struct Program(Child);

impl Program {
    fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the program exits, and returns the exit status and the output.
    fn wait_for_exit(mut self) -> (ExitStatus, String) {
        let status = wait_until("the program to end", || self.0.try_wait().unwrap());
        let mut output = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        (status, output)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the condition returns a value. `what` names the awaited event.
fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "timeout while waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn passed_sockets_are_served_and_not_removed() {
    let unit = Unit::new(&["control.sock", "nri.sock", "more.sock"], "");
    let before = unit.inodes();
    for _ in 0..2 {
        // Clients can connect before nrid runs.
        let early = Client::connect(&unit.path("control.sock")).unwrap();
        let plugin = UnixStream::connect(unit.path("nri.sock")).unwrap();
        let child = Program::start(unit.activated("$$", 3));
        early.set_timeout(Some(TIMEOUT)).unwrap();
        let Reply::Status(status) = early.call(&Request::Status, &[]).unwrap() else { panic!() };
        assert_eq!(status.pid, child.id());
        let sockets: Vec<_> = status.sockets.iter().map(|s| s.as_path().to_owned()).collect();
        assert_eq!(sockets, ["plugins/nri.sock", "nri.sock", "more.sock"].map(|s| unit.path(s)));
        wait_until("the plugin that connected early", || {
            unit.status().plugins.iter().any(|p| p.pid == Some(std::process::id())).then_some(())
        });
        drop(plugin);
        unit.stop();
        let (status, output) = child.wait_for_exit();
        assert!(status.success(), "{output}");
        assert_eq!(unit.inodes(), before, "nrid removed passed sockets");
        assert!(!output.contains("warn") && !output.contains("WARN"), "a warning: {output}");
    }
}

#[test]
fn plugins_inherit_neither_sockets_nor_variables_of_systemd() {
    let unit = Unit::new(&["control.sock", "nri.sock"], "plugin_registration_timeout = '60s'\n");
    let (plugin, seen) = (unit.dir.path().join("plugins/10-print"), unit.dir.path().join("seen"));
    let script = format!(
        "#!/bin/sh\n(env; readlink /proc/$$/fd/*) >'{seen}.new'\nmv '{seen}.new' '{seen}'\n",
        seen = seen.display()
    );
    fs::write(&plugin, script).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let notify = UnixDatagram::bind(unit.dir.path().join("notify")).unwrap();
    let mut command = unit.activated("$$", 2);
    command.env("NOTIFY_SOCKET", unit.dir.path().join("notify"));
    let child = Program::start(command);
    let seen = wait_until("the plugin", || fs::read_to_string(&seen).ok());
    let link = |n: u32| fs::read_link(format!("/proc/{}/fd/{n}", child.id())).unwrap();
    for n in [3, 4] {
        let socket = link(n).to_str().unwrap().to_owned();
        assert!(socket.starts_with("socket:["), "{socket}");
        assert!(!seen.contains(&socket), "{socket} is in {seen}");
    }
    assert!(seen.contains("NRI_PLUGIN_SOCKET=3") && seen.contains("socket:["), "{seen}");
    assert!(!seen.contains("LISTEN_") && !seen.contains("NOTIFY_"), "{seen}");

    notify.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut message = [0; 64];
    let n = notify.recv(&mut message).unwrap();
    assert_eq!(&message[..n], b"READY=1");
    unit.status();
    unit.stop();
    child.wait_for_exit();
}

#[test]
fn nrid_does_not_replace_sockets_on_which_systemd_listens() {
    let unit = Unit::new(&["control.sock", "nri.sock"], "");
    let before = unit.inodes();
    // A background start reports ready, because its caller can connect to systemd's sockets.
    let (status, output) = Program::start(unit.without_sockets(&["--background"])).wait_for_exit();
    assert!(status.success());
    assert_eq!(output, "ready\n");
    let (status, output) = Program::start(unit.without_sockets(&[])).wait_for_exit();
    assert_eq!(status.code(), Some(1));
    assert!(
        output.contains("another process listens on")
            && output.contains("nri-container-runtime.service"),
        "{output}"
    );
    assert_eq!(unit.inodes(), before);
    // The nrid that systemd then starts waits for the lock.
    let child = Program::start(unit.activated("$$", 2));
    assert_eq!(unit.status().pid, child.id());
    unit.stop();
    child.wait_for_exit();
}

#[test]
fn a_restart_keeps_passed_sockets() {
    let unit = Unit::new(&["control.sock", "nri.sock"], "");
    let before = unit.inodes();
    let child = Program::start(unit.activated("$$", 2));
    unit.status();
    for _ in 0..2 {
        let client = Client::connect(&unit.path("control.sock")).unwrap();
        client.set_timeout(Some(TIMEOUT)).unwrap();
        assert_eq!(client.call(&Request::Restart { program: None }, &[]).unwrap(), Reply::Done);
        assert!(client.wait_closed());
        assert_eq!((unit.status().pid, unit.status().sockets.len()), (child.id(), 2));
    }
    unit.stop();
    let (status, output) = child.wait_for_exit();
    assert!(status.success(), "{output}");
    assert_eq!(unit.inodes(), before);
}

#[test]
fn descriptors_for_another_process_are_ignored() {
    let unit = Unit::new(&["other.sock"], "");
    let child = Program::start(unit.activated("1", 1));
    wait_until("nrid to listen", || UnixStream::connect(unit.path("control.sock")).ok());
    let sockets: Vec<_> = unit.status().sockets.iter().map(|s| s.as_path().to_owned()).collect();
    assert_eq!(sockets, ["plugins/nri.sock", "nri.sock"].map(|s| unit.path(s)));
    unit.stop();
    assert!(child.wait_for_exit().0.success());
    assert!(
        !unit.path("nri.sock").exists() && !unit.path("control.sock").exists(),
        "nrid did not remove the sockets that it created"
    );
}

#[test]
fn invalid_descriptors_are_refused_and_named_in_the_error() {
    let check = |unit: &Unit, count: usize, parts: &[&str]| {
        let (status, output) = Program::start(unit.activated("$$", count)).wait_for_exit();
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(parts.iter().all(|part| output.contains(part)), "{output}");
    };
    let unit = Unit::new(&["nri.sock"], "");
    check(&unit, 2, &["descriptor 4 of LISTEN_FDS"]);
    check(&unit, 1000, &["LISTEN_FDS=\"1000\""]);

    let mut unit = Unit::new(&[], "");
    let elsewhere = unit.dir.path().join("control.sock");
    unit.sockets.push((elsewhere.clone(), UnixListener::bind(&elsewhere).unwrap()));
    check(&unit, 1, &[elsewhere.to_str().unwrap(), unit.path("control.sock").to_str().unwrap()]);

    // A datagram socket in place of a listener.
    let mut unit = Unit::new(&[], "");
    let datagrams = UnixDatagram::bind(unit.path("nri.sock")).unwrap();
    unit.sockets.push((unit.path("nri.sock"), std::os::fd::OwnedFd::from(datagrams).into()));
    check(&unit, 1, &["descriptor 3 of LISTEN_FDS is not a listening unix stream socket"]);
}

#[test]
fn connections_of_plugins_are_closed_under_disable_connections() {
    let unit = Unit::new(&["control.sock", "nri.sock"], "disable_connections = true\n");
    let child = Program::start(unit.activated("$$", 2));
    assert!(unit.status().sockets.is_empty());
    let mut plugin = UnixStream::connect(unit.path("nri.sock")).unwrap();
    plugin.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(plugin.read(&mut [0]).unwrap(), 0);
    unit.stop();
    child.wait_for_exit();
}

#[test]
fn a_socket_of_another_process_is_not_removed() {
    let unit = Unit::new(&[], "");
    let child = Program::start(unit.without_sockets(&[]));
    let replace = |path: &Path| {
        wait_until("the socket", || path.exists().then_some(()));
        fs::remove_file(path).unwrap();
        UnixListener::bind(path).unwrap()
    };
    wait_until("nrid to listen", || UnixStream::connect(unit.path("control.sock")).ok());
    let _listener = replace(&unit.path("nri.sock"));
    unit.stop();
    assert!(child.wait_for_exit().0.success());
    assert!(unit.path("nri.sock").exists());
    assert!(!unit.path("control.sock").exists());
}
