//! Runs the example `adjust` as a process: launched with its socket as descriptor 3, and as an
//! external plugin.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use command_fds::{CommandFdExt, FdMapping};
use common::*;
use nri_plugin::{EventMask, proto::*};
use std::{
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};
use tokio::{
    net::{UnixListener, UnixStream},
    time::timeout,
};

/// Path of the example, which Cargo builds before the tests into a folder beside theirs.
fn example() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().with_file_name("examples").join("adjust")
}

/// Waits until the plugin exits, which it does after its connection has ended.
async fn wait_for_exit(child: Child) -> Output {
    let wait = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    timeout(TIMEOUT, wait).await.unwrap().unwrap()
}

async fn launch() -> (TestRuntimeEnd, Child) {
    let (runtime_end, plugin_end) = UnixStream::pair().unwrap();
    let plugin_end = plugin_end.into_std().unwrap();
    let mut command = Command::new(example());
    command
        .env_clear()
        .env("NRI_PLUGIN_NAME", "tuner")
        .env("NRI_PLUGIN_IDX", "33")
        .env("NRI_PLUGIN_SOCKET", "3")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .fd_mappings(vec![FdMapping { parent_fd: plugin_end.into(), child_fd: 3 }])
        .unwrap();
    let child = command.spawn().unwrap();
    drop(command); // closes the plugin's end of the socket in this process
    let mut runtime = serve_runtime(runtime_end).await;
    let registered = timeout(TIMEOUT, runtime.registered.recv()).await.unwrap().unwrap();
    assert_eq!((registered.plugin_name.as_str(), registered.plugin_idx.as_str()), ("tuner", "33"));
    (runtime, child)
}

fn configure(config: &str) -> ConfigureRequest {
    ConfigureRequest {
        config: config.into(),
        runtime_name: "test".into(),
        runtime_version: "1".into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_launched_plugin_takes_its_socket_and_identity_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let (runtime, child) = launch().await;
    let plugin = runtime.end.plugin();
    let config = format!(
        "log = {log:?}\nfilter.name = 'c'\ncreate.env.set = {{ A = 'b' }}\nupdate.shares = 9\n\
         create.resources.cpus = '0-1'"
    );
    // In the protocol, an empty set means all events of the runtime.
    assert_eq!(
        plugin.configure(TIMEOUT, &configure(&config)).await.unwrap().events,
        EventMask::NONE.bits()
    );
    plugin.synchronize(TIMEOUT, &SynchronizeRequest::new()).await.unwrap();

    let mut create = CreateContainerRequest { pod: Some(pod("p")).into(), ..Default::default() };
    for (name, env) in [("c", vec!["A"]), ("other", vec![])] {
        create.container = Some(container(name)).into();
        let adjust = plugin.create_container(TIMEOUT, &create).await.unwrap().adjust;
        assert_eq!(adjust.env.iter().map(|e| e.key.as_str()).collect::<Vec<_>>(), env);
        assert_eq!(adjust.linux.resources.cpu.cpus, if env.is_empty() { "" } else { "0-1" });
    }
    let mut update =
        UpdateContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    update.linux_resources.mut_or_insert_default().pids.mut_or_insert_default().limit = 3;
    let reply = plugin.update_container(TIMEOUT, &update).await.unwrap();
    assert_eq!(reply.update[0].linux.resources.cpu.shares.value, 9);

    let lines = std::fs::read_to_string(&log).unwrap();
    let expect = [
        r#"{"event":"Configure"}"#,
        r#"{"event":"Synchronize"}"#,
        r#"{"event":"CreateContainer","pod":"p","container":"c"}"#,
        r#"{"event":"CreateContainer","pod":"p","container":"other"}"#,
        concat!(
            r#"{"event":"UpdateContainer","pod":"","container":"c","#,
            r#""resources":{"pids":{"limit":"3"}}}"#
        ),
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expect);

    drop(runtime);
    let output = wait_for_exit(child).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn an_invalid_configuration_is_reported_by_plugin_and_runtime() {
    let (runtime, child) = launch().await;
    let error =
        runtime.end.plugin().configure(TIMEOUT, &configure("colour = 1")).await.unwrap_err();
    assert!(error.to_string().contains("unknown key `colour`"), "{error}");
    drop(runtime);
    let output = wait_for_exit(child).await;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("plugin 33-tuner refused its configuration") && text.contains("`colour`"),
        "{text}"
    );
}

/// A child must not inherit the socket: the runtime would not notice the exit of the plugin.
#[tokio::test]
async fn a_killed_plugin_closes_its_connection_despite_a_child() {
    let (runtime, mut child) = launch().await;
    let fds = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let fds: Vec<_> = fds.map(|f| f.unwrap().path()).collect();
    for fd in fds
        .iter()
        .filter(|f| std::fs::read_link(f).is_ok_and(|l| l.to_string_lossy().starts_with("socket:")))
    {
        let info =
            std::fs::read_to_string(fd.to_string_lossy().replace("/fd/", "/fdinfo/")).unwrap();
        let flags = info.lines().find_map(|l| l.strip_prefix("flags:")).unwrap().trim();
        // O_CLOEXEC is 0o2000000.
        let cloexec = i32::from_str_radix(flags, 8).unwrap() & 0o2000000 != 0;
        assert!(cloexec, "{} is inherited by children", fd.display());
    }
    child.kill().unwrap();
    timeout(TIMEOUT, runtime.end.closed()).await.unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn an_external_plugin_connects_to_the_given_socket() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, log, config) =
        (dir.path().join("nri.sock"), dir.path().join("log"), dir.path().join("toml"));
    std::fs::write(&config, "create.args = ['x']\nlog = '/not/used'").unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let arg = |p: &PathBuf| p.to_str().unwrap().to_owned();
    let child = Command::new(example())
        .args([
            "--socket",
            &arg(&socket),
            "--log",
            &arg(&log),
            "--config",
            &arg(&config),
            "--idx",
            "12",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (stream, _) = timeout(TIMEOUT, listener.accept()).await.unwrap().unwrap();
    let mut runtime = serve_runtime(stream).await;
    let registered = timeout(TIMEOUT, runtime.registered.recv()).await.unwrap().unwrap();
    assert_eq!((registered.plugin_name.as_str(), registered.plugin_idx.as_str()), ("adjust", "12"));
    let plugin = runtime.end.plugin();
    plugin.configure(TIMEOUT, &configure("")).await.unwrap();
    let reply = plugin.create_container(TIMEOUT, &CreateContainerRequest::new()).await.unwrap();
    assert_eq!(reply.adjust.args, ["x"], "the empty configuration replaced that of --config");
    // Configure and CreateContainer.
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 2);
    drop(runtime);
    assert!(wait_for_exit(child).await.status.success());

    let failed = Command::new(example()).args(["--socket", "/missing"]).output().unwrap();
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(
        text,
        "adjust: no NRI socket accepts connections: \
         /missing: No such file or directory (os error 2)\n"
    );
}

/// The environment of an external plugin has what a command line would have.
#[tokio::test]
async fn an_external_plugin_connects_again_until_it_is_told_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, log) = (dir.path().join("nri.sock"), dir.path().join("log"));
    let listener = UnixListener::bind(&socket).unwrap();
    let child = Command::new(example())
        .args(["--reconnect", "--log", log.to_str().unwrap()])
        .env("NRI_PLUGIN_SOCKET", &socket)
        .env("NRI_PLUGIN_IDX", "44")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut runtime = None;
    for _ in 0..2 {
        drop(runtime.take());
        let (stream, _) = timeout(TIMEOUT, listener.accept()).await.unwrap().unwrap();
        let mut end = serve_runtime(stream).await;
        let registered = timeout(TIMEOUT, end.registered.recv()).await.unwrap().unwrap();
        assert_eq!((&*registered.plugin_name, &*registered.plugin_idx), ("adjust", "44"));
        end.end.plugin().configure(TIMEOUT, &configure("")).await.unwrap();
        runtime = Some(end);
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    timeout(TIMEOUT, runtime.unwrap().end.closed()).await.unwrap();
    let output = wait_for_exit(child).await;
    assert!(output.status.success(), "{output:?}");
    let events = std::fs::read_to_string(&log).unwrap();
    let line = |event| format!("{{\"event\":\"{event}\"}}\n");
    assert_eq!(events, line("Configure").repeat(2) + &line("Shutdown"));
    let text = String::from_utf8_lossy(&output.stderr);
    let closed = " INFO 44-adjust: the runtime closed the connection\n";
    let registered = format!(" INFO 44-adjust: registered with test 1 at {}\n", socket.display());
    let registered = registered
        + " INFO 44-adjust: no configuration from test: it sends one only to plugins that it \
           launches\n";
    assert_eq!(text, [&registered, closed, &registered].concat());
}

#[tokio::test]
async fn a_plugin_without_a_runtime_says_so_once() {
    let dir = tempfile::tempdir().unwrap();
    let err = dir.path().join("err");
    let child = Command::new(example())
        .args(["--reconnect", "--socket", "/missing"])
        .stderr(std::fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    let pause = |ms| tokio::time::sleep(std::time::Duration::from_millis(ms));
    let said = async {
        while !std::fs::read_to_string(&err).unwrap().ends_with('\n') {
            pause(10).await;
        }
    };
    timeout(TIMEOUT, said).await.unwrap();
    // The next attempts are after 100 and 300 ms.
    pause(350).await;
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(wait_for_exit(child).await.status.success());
    assert_eq!(
        std::fs::read_to_string(&err).unwrap(),
        " WARN 50-adjust: no NRI socket accepts connections: \
         /missing: No such file or directory (os error 2); trying again\n"
    );
}

#[test]
fn help_is_printed_without_an_error() {
    for (name, usage) in [("adjust", "adjust [--config FILE]"), ("logger", "logger [--idx NN]")] {
        for option in ["--help", "-h"] {
            let output = Command::new(example().with_file_name(name)).arg(option).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains(usage), "{output:?}");
        }
    }
}
