//! Checks of connecting processes, with real programs and sockets. User 4711 stands for any user
//! other than root.

use crate::harness::*;
use nri_adaptation::{
    AdaptationConfig, DefaultValidatorConfig, PeerPolicy, PluginPolicy, PluginState,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};

struct SocketDir {
    dir: tempfile::TempDir,
}

impl SocketDir {
    /// Creates a directory that all users can reach.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Copies the plugin program with `cp`: if this process wrote the file, the child of another
    /// test could inherit the open descriptor, and executing the file would fail.
    fn program(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let copied = Command::new("/bin/cp")
            .arg(env!("CARGO_BIN_EXE_nri-adaptation-fixture"))
            .arg(&path)
            .status();
        assert!(copied.unwrap().success());
        path
    }

    async fn serve(&self, peers: PeerPolicy) -> Harness {
        self.serve_with(AdaptationConfig { peers, ..AdaptationConfig::default() }).await
    }

    async fn serve_with(&self, config: AdaptationConfig) -> Harness {
        let config = AdaptationConfig { registration_timeout: Duration::from_secs(60), ..config };
        let harness = Harness::with(config).await;
        let listener = UnixListener::bind(self.path("nri.sock")).unwrap();
        fs::set_permissions(self.path("nri.sock"), fs::Permissions::from_mode(0o666)).unwrap();
        harness.adaptation.serve(listener).unwrap();
        harness
    }

    fn connect(&self, program: &Path, uid: Option<u32>) -> Running {
        self.connect_as("99", program, uid)
    }

    /// Connects a plugin with this index.
    fn connect_as(&self, index: &str, program: &Path, uid: Option<u32>) -> Running {
        let mut command = Command::new(program);
        command.arg("--connect").arg(self.path("nri.sock")).arg(index);
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        Running(command.spawn().unwrap())
    }
}

/// A process that is killed and reaped when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the last errors of all closed plugins.
fn refusals(harness: &Harness) -> Vec<String> {
    let closed =
        harness.adaptation.plugins().into_iter().filter(|p| p.state == PluginState::Closed);
    closed.map(|p| p.last_error.unwrap()).collect()
}

fn is_root() -> bool {
    let root =
        fs::read_to_string("/proc/self/status").unwrap().lines().any(|l| l == "Uid:\t0\t0\t0\t0");
    if !root {
        println!("skipped: only root can run programs as another user");
    }
    root
}

#[tokio::test]
async fn only_allowed_users_may_connect() {
    if !is_root() {
        return;
    }
    let dir = SocketDir::new();
    let program = dir.program("plugin");
    let harness = dir.serve(PeerPolicy::default()).await;
    let _ours = dir.connect(&program, None);
    harness.log.wait("manager 99-other Active").await;
    let refused = "refused: user 4711 may not connect; to allow this, add 4711 to allow_uids";
    let other = dir.connect(&program, Some(4711));
    harness.log.wait("manager ? Closed").await;
    assert_eq!(refusals(&harness), [refused]);
    assert_eq!(harness.adaptation.plugins()[1].pid, Some(other.0.id()));
    // A second attempt is listed, and the manager is notified once.
    let again = dir.connect(&program, Some(4711));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while harness.adaptation.plugins()[1].pid != Some(again.0.id()) {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(refusals(&harness), [refused]);
    assert_eq!(harness.log.of("manager ?"), ["Closed"]);
    assert_eq!(harness.active_plugins(), ["99-other"]);

    let dir = SocketDir::new();
    let program = dir.program("plugin");
    let harness = dir.serve(PeerPolicy { allow_uids: vec![4711], ..PeerPolicy::default() }).await;
    let _allowed = dir.connect(&program, Some(4711));
    harness.log.wait("manager 99-other Active").await;
    assert_eq!(refusals(&harness), [""; 0]);
}

#[tokio::test]
async fn a_name_with_a_policy_is_refused_to_other_users() {
    if !is_root() {
        return;
    }
    let uids = |uids: &[u32]| PluginPolicy {
        plugin: "other".into(),
        uids: uids.to_vec(),
        ..PluginPolicy::default()
    };
    let all = PluginPolicy { plugin: "*".into(), ..PluginPolicy::default() };
    let rules =
        DefaultValidatorConfig { required_plugins: vec!["other".into()], ..Default::default() };
    let refused = "user 4711 may not register as 99-other; \
                   to allow this, add 4711 to uids of the policy for 99-other";
    for (policies, default_validator, expected) in [
        (vec![all.clone()], None, Ok(())),
        (vec![all.clone(), uids(&[])], None, Err(refused)),
        (vec![all.clone(), uids(&[4711])], None, Ok(())),
        (vec![all], Some(rules), Err(refused)),
    ] {
        let dir = SocketDir::new();
        let program = dir.program("plugin");
        let peers = PeerPolicy { allow_uids: vec![4711], ..PeerPolicy::default() };
        let harness = dir
            .serve_with(AdaptationConfig {
                peers,
                policies,
                default_validator,
                ..AdaptationConfig::default()
            })
            .await;
        let _other = dir.connect(&program, Some(4711));
        match expected {
            Ok(()) => harness.log.wait("manager 99-other Active").await,
            Err(why) => {
                harness.log.wait("manager ? Closed").await;
                assert_eq!(refusals(&harness), [why]);
                // Root may use the name.
                let _ours = dir.connect(&program, None);
                harness.log.wait("manager 99-other Active").await;
            }
        }
    }
}

#[tokio::test]
async fn only_allowed_programs_may_connect() {
    let dir = SocketDir::new();
    let (good, other) = (dir.program("good"), dir.program("other"));
    fs::hard_link(&good, dir.path("alias")).unwrap();
    let peers = PeerPolicy {
        allow_programs: Some(vec![dir.path("missing"), dir.path("alias")]),
        ..PeerPolicy::default()
    };
    let harness = dir.serve(peers).await;
    let _good = dir.connect(&good, None);
    harness.log.wait("manager 99-other Active").await;
    let _other = dir.connect(&other, None);
    harness.log.wait("manager ? Closed").await;
    let refused = |path: &Path| {
        format!("refused: {} may not connect; it is not in allow_programs", path.display())
    };
    assert_eq!(refusals(&harness), [refused(&other)]);
    // A program that other users can change is refused.
    fs::set_permissions(&good, fs::Permissions::from_mode(0o777)).unwrap();
    let _again = dir.connect(&good, None);
    harness.log.wait_times("manager ? Closed", 2).await;
    let refusals = refusals(&harness);
    let start = format!(
        "refused: program is allowed but not trusted: {} is writable by everybody (mode 777)",
        dir.path("alias").display()
    );
    assert!(refusals[1].starts_with(&start), "{refusals:?}");
    assert_eq!(harness.active_plugins(), ["99-other"]);

    // An empty list allows no program.
    let dir = SocketDir::new();
    let program = dir.program("plugin");
    let harness =
        dir.serve(PeerPolicy { allow_programs: Some(vec![]), ..PeerPolicy::default() }).await;
    let _refused = dir.connect(&program, None);
    harness.log.wait("manager ? Closed").await;
    assert_eq!(self::refusals(&harness), [refused(&program)]);
}

#[tokio::test]
async fn a_peer_that_exited_is_refused_even_if_its_pid_is_reused() {
    let dir = SocketDir::new();
    let program = dir.program("plugin");
    let peers = PeerPolicy { allow_programs: Some(vec![program.clone()]), ..PeerPolicy::default() };
    let harness = Harness::with(AdaptationConfig { peers, ..AdaptationConfig::default() }).await;
    let listener = std::os::unix::net::UnixListener::bind(dir.path("nri.sock")).unwrap();
    let running = dir.connect(&program, None);
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(
        poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&limit)),
        Ok(1),
        "no connection within 60 s"
    );
    drop(running);
    listener.set_nonblocking(true).unwrap();
    harness.adaptation.serve(UnixListener::from_std(listener).unwrap()).unwrap();
    harness.log.wait("manager ? Closed").await;
    let refusals = refusals(&harness);
    assert!(refusals[0].starts_with("refused: program of the peer unknown: "), "{refusals:?}");
}

/// Waits until a connection is closed, and checks that no data was sent.
async fn wait_closed(mut stream: UnixStream) {
    let mut byte = [0; 1];
    let read = stream.read(&mut byte);
    let n = tokio::time::timeout(Duration::from_secs(60), read).await.unwrap();
    assert_eq!(n.unwrap_or(0), 0);
}

#[tokio::test]
async fn connections_that_do_not_register_are_limited() {
    let dir = SocketDir::new();
    let harness = dir.serve(PeerPolicy { max_unregistered: 9, ..PeerPolicy::default() }).await;
    let socket = dir.path("nri.sock");
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(UnixStream::connect(&socket).await.unwrap());
    }
    wait_closed(UnixStream::connect(&socket).await.unwrap()).await;
    let refused = format!(
        "refused: 3 connections of process {} have not registered yet, \
         its part of max_unregistered",
        std::process::id()
    );
    assert_eq!(refusals(&harness), [refused]);
    // Another process has places of its own.
    let _plugin = dir.connect(&dir.program("plugin"), None);
    harness.log.wait("manager 99-other Active").await;
    assert_eq!(harness.active_plugins(), ["99-other"]);
    harness.create("c").await.unwrap();
    // A closed connection no longer counts.
    drop(waiting.pop());
    harness.log.wait_times("manager ? Closed", 2).await;
    waiting.push(UnixStream::connect(&socket).await.unwrap());
    wait_closed(UnixStream::connect(&socket).await.unwrap()).await;
}

#[tokio::test]
async fn connections_of_a_container_leave_places_for_plugins_of_the_host() {
    if !is_root() {
        return;
    }
    let dir = SocketDir::new();
    let harness = dir.serve(PeerPolicy { max_unregistered: 4, ..PeerPolicy::default() }).await;
    let program = dir.program("plugin");
    // The fixture connects once; each has a pid namespace of its own.
    let mut containers = Vec::new();
    for _ in 0..4 {
        let mut container = Command::new("unshare");
        container.args(["--pid", "--fork", "--kill-child", "--"]).arg(&program);
        container.arg("--idle").arg(dir.path("nri.sock"));
        containers.push(Running(container.spawn().unwrap()));
    }
    harness.log.wait("manager ? Closed").await;
    let refused = "refused: 3 connections of containers have not registered yet; the other places \
                   of max_unregistered are kept for plugins of the host";
    assert_eq!(refusals(&harness), [refused]);
    let _plugin = dir.connect(&program, None);
    harness.log.wait("manager 99-other Active").await;
}

#[tokio::test]
async fn plugins_without_a_policy_leave_places_for_those_with_one() {
    let dir = SocketDir::new();
    let named = PluginPolicy { plugin: "97-other".into(), ..PluginPolicy::default() };
    let peers = PeerPolicy { max_plugins: 4, ..PeerPolicy::default() };
    let config = AdaptationConfig { peers, policies: vec![named], ..AdaptationConfig::default() };
    let harness = dir.serve_with(config).await;
    let program = dir.program("plugin");
    let mut plugins = Vec::new();
    for index in ["10", "11", "12"] {
        plugins.push(dir.connect_as(index, &program, None));
        harness.log.wait(&format!("manager {index}-other Active")).await;
    }
    let _refused = dir.connect_as("13", &program, None);
    harness.log.wait("manager ? Closed").await;
    let refused = "refused: 3 plugins are connected; the other places of max_plugins are kept for \
                   plugins with a policy of their own";
    assert_eq!(refusals(&harness), [refused]);
    let _named = dir.connect_as("97", &program, None);
    harness.log.wait("manager 97-other Active").await;
}

/// One process took three quarters of the places, and each creation waited for all of them.
#[tokio::test]
async fn one_process_has_a_part_of_the_places_for_plugins() {
    let dir = SocketDir::new();
    let harness = dir.serve(PeerPolicy { max_plugins: 8, ..PeerPolicy::default() }).await;
    let connect = async |name: &str| {
        let stream = UnixStream::connect(dir.path("nri.sock")).await.unwrap();
        harness.serve_quiet(name, stream).await
    };
    let (first, second, third) =
        (connect("10-a").await, connect("11-b").await, connect("12-c").await);
    first.register().await.unwrap();
    second.register().await.unwrap();
    let error = third.register().await.unwrap_err().to_string();
    let refused = format!(
        "refused: 2 plugins of process {} are connected, its part of max_plugins",
        std::process::id()
    );
    assert!(error.contains(&refused), "{error}");
    // Another process has places of its own, and a newer session replaces one.
    let _plugin = dir.connect(&dir.program("plugin"), None);
    harness.log.wait("manager 99-other Active").await;
    harness.log.wait("manager 10-a Active").await;
    let newer = connect("10-a").await;
    newer.register().await.unwrap();
}

#[tokio::test]
async fn the_number_of_plugins_is_limited() {
    let dir = SocketDir::new();
    let harness = dir.serve(PeerPolicy { max_plugins: 2, ..PeerPolicy::default() }).await;
    let program = dir.program("plugin");
    let first = dir.connect_as("98", &program, None);
    let _second = dir.connect(&program, None);
    harness.log.wait("manager 98-other Active").await;
    harness.log.wait("manager 99-other Active").await;
    let _third = dir.connect(&program, None);
    harness.log.wait("manager ? Closed").await;
    let refused = "refused: 2 plugins are connected, the limit of max_plugins";
    assert_eq!(refusals(&harness), [refused]);
    drop(first);
    harness.log.wait("manager 98-other Closed").await;
    let _fourth = dir.connect_as("98", &program, None);
    harness.log.wait_times("manager 98-other Active", 2).await;
    assert_eq!(harness.active_plugins(), ["98-other", "99-other"]);
}

#[tokio::test]
async fn only_a_session_of_the_same_user_replaces_one_and_a_policy_keeps_its_users() {
    if !is_root() {
        return;
    }
    let dir = SocketDir::new();
    let program = dir.program("plugin");
    let peers = PeerPolicy { allow_uids: vec![4711, 4712, 4713], ..PeerPolicy::default() };
    let uids = vec![4711, 4712];
    let policies = vec![PluginPolicy { plugin: "other".into(), uids, ..PluginPolicy::default() }];
    let config = AdaptationConfig { peers, policies, ..AdaptationConfig::default() };
    let harness = dir.serve_with(config).await;
    let first = dir.connect(&program, Some(4711));
    harness.log.wait("manager 99-other Active").await;
    // Another user of the policy, and root.
    for (times, uid) in [(1, Some(4712)), (2, None)] {
        let other = dir.connect(&program, uid);
        harness.log.wait_times("manager 99-other Closed", times).await;
        let (first, other) = (first.0.id(), other.0.id());
        let refused = format!(
            "refused: process {first} has registered as 99-other already, and process {other} may \
             not replace it: it is of another user; end one of them, or give it another index or \
             name"
        );
        // The last refusal is listed.
        assert_eq!(refusals(&harness), [refused]);
    }
    let _no_user_of_the_policy = dir.connect(&program, Some(4713));
    harness.log.wait("manager ? Closed").await;
    let refused = "user 4713 may not register as 99-other; \
                   to allow this, add 4713 to uids of the policy for 99-other";
    assert_eq!(refusals(&harness)[1..], [refused]);
    let newer = dir.connect(&program, Some(4711));
    harness.log.wait_times("manager 99-other Closed", 3).await;
    let pids: Vec<_> = harness.adaptation.plugins().iter().map(|p| (p.pid, p.state)).collect();
    assert_eq!(pids[0], (Some(newer.0.id()), PluginState::Active), "{pids:?}");
    assert_eq!(harness.active_plugins(), ["99-other"]);
}
