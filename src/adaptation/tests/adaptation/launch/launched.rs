//! Plugins that are launched as programs. These tests run in real time, and wait for events instead
//! of sleeping.

use crate::harness::*;
use nri_adaptation::{
    AdaptError, AdaptationConfig, LaunchOutcome, PluginOrigin, PluginPolicy, PluginState,
    Privileges,
};
use nri_api::proto::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Temporary directories of plugins and their configuration, and a configuration that names them.
pub(crate) struct Dirs {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) config: AdaptationConfig,
}

impl Dirs {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = AdaptationConfig {
            plugin_path: dir.path().join("plugins"),
            plugin_config_path: dir.path().join("conf.d"),
            registration_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(60),
            stop_grace: Duration::from_secs(60),
            launcher: env!("CARGO_BIN_EXE_nri-adaptation-fixture").into(),
            ..AdaptationConfig::default()
        };
        fs::create_dir(&config.plugin_path).unwrap();
        fs::create_dir(&config.plugin_config_path).unwrap();
        Self { dir, config }
    }

    /// Disables restarts.
    pub(crate) fn never_restart(&mut self) {
        self.policy(PluginPolicy { restart: false, ..PluginPolicy::default() });
    }

    /// Adds a policy for all plugins.
    pub(crate) fn policy(&mut self, policy: PluginPolicy) {
        self.config.policies.push(PluginPolicy { plugin: "*".into(), ..policy });
    }

    /// Writes a plugin that is a shell script. Returns its path.
    pub(crate) fn plugin(&self, name: &str, script: &str) -> PathBuf {
        let path = self.config.plugin_path.join(name);
        // Written under another name and moved: executing a file that is open for writing fails.
        let new = self.dir.path().join("new");
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, &path).unwrap();
        path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a script that executes the fixture, which appends "shutdown" to the file "shutdown"
    /// when it receives `Shutdown`.
    pub(crate) fn fixture(&self) -> String {
        format!(
            "exec {} {} <&3",
            env!("CARGO_BIN_EXE_nri-adaptation-fixture"),
            self.file("shutdown").display()
        )
    }

    pub(crate) async fn start(&self) -> (Harness, Vec<LaunchOutcome>) {
        Harness::start(self.config.clone()).await.unwrap()
    }
}

/// Returns the file name and the result of each launch as text.
pub(crate) fn results(outcomes: &[LaunchOutcome]) -> Vec<(String, String)> {
    let result = |o: &LaunchOutcome| match &o.result {
        Ok(id) => format!("ok {id}"),
        Err(e) => e.to_string(),
    };
    outcomes
        .iter()
        .map(|o| (o.path.file_name().unwrap().to_string_lossy().into_owned(), result(o)))
        .collect()
}

/// Whether the process exists, possibly as a zombie.
pub(crate) fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap()
}

#[tokio::test]
async fn a_plugin_is_launched_with_socket_identity_and_configuration_and_stopped() {
    let mut dirs = Dirs::new();
    dirs.config.plugin_variables = vec![("VARIABLE".to_owned(), "a,b".to_owned())];
    let environ = dirs.file("environ");
    let path = dirs.plugin(
        "07-fix",
        &format!("/bin/cat /proc/$$/environ > {}\n{}", environ.display(), dirs.fixture()),
    );
    fs::write(dirs.config.plugin_config_path.join("fix.conf"), "of the fixture").unwrap();
    let (harness, outcomes) = dirs.start().await;
    assert_eq!(results(&outcomes), [("07-fix".to_owned(), "ok 07-fix".to_owned())]);

    let status = harness.adaptation.plugins().remove(0);
    assert_eq!((status.origin, status.state), (PluginOrigin::Launched(path), PluginState::Active));
    let environ = fs::read_to_string(environ).unwrap();
    let mut environ: Vec<_> = environ.split_terminator('\0').collect();
    environ.sort();
    let of_nri = ["NRI_PLUGIN_IDX=07", "NRI_PLUGIN_NAME=fix", "NRI_PLUGIN_SOCKET=3"];
    assert_eq!(environ, [&of_nri[..], &["VARIABLE=a,b"]].concat());

    let pid = status.pid.unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The fields after the name are state, parent and process group.
    let group = stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap().to_owned();
    assert_eq!(group, pid.to_string(), "the plugin is not the leader of a process group");
    let outputs = [1, 2].map(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap());
    assert!(outputs[0].to_string_lossy().starts_with("pipe:"), "{outputs:?}");
    assert_eq!(outputs[0], outputs[1], "two pipes, so the order of lines is lost");

    let outcome = harness.create("c").await.unwrap();
    assert_eq!(outcome.adjust.annotations["config"], "of the fixture");
    assert_eq!(outcome.adjust.annotations["NRI_PLUGIN_NAME"], "fix");
    assert_eq!(outcome.consulted[0].to_string(), "07-fix", "the identity is not the file's name");

    harness.adaptation.shutdown().await;
    assert!(!exists(pid), "the process was not reaped");
    assert_eq!(fs::read_to_string(dirs.file("shutdown")).unwrap(), "shutdown");
}

/// The start returns, and creations proceed, as soon as a reply to a request would be late.
#[tokio::test]
async fn a_start_does_not_wait_for_a_slow_synchronization() {
    let mut dirs = Dirs::new();
    dirs.config.request_timeout = Duration::from_secs(2);
    dirs.config.synchronization_timeout = Duration::from_secs(60);
    let (done, conf) = (dirs.file("done"), dirs.config.plugin_config_path.join("10-a.conf"));
    fs::write(conf, format!("synchronized with {}", done.display())).unwrap();
    dirs.plugin("10-a", &dirs.fixture());
    let (harness, outcomes) = dirs.start().await;
    assert_eq!(results(&outcomes), [("10-a".to_owned(), "ok 10-a".to_owned())]);
    let state = || harness.adaptation.plugins()[0].state;
    assert_eq!(state(), PluginState::Synchronizing);
    assert_eq!(harness.create("c").await.unwrap().consulted, []);
    fs::write(done, "").unwrap();
    harness.log.wait("manager 10-a Active").await;
    assert_eq!(state(), PluginState::Active);
    assert_eq!(harness.create("d").await.unwrap().consulted.len(), 1);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_plugin_that_fails_to_start_is_reported_and_others_start() {
    let mut dirs = Dirs::new();
    dirs.config.registration_timeout = Duration::from_secs(2);
    dirs.never_restart();
    dirs.plugin("10-exits", "exit 7");
    dirs.plugin("20-killed", "kill -9 $$");
    let pid_file = dirs.file("pid");
    dirs.plugin("30-never", &format!("echo $$ > {}\nread forever <&3", pid_file.display()));
    // Closes the socket, and keeps running.
    dirs.plugin("35-mute", "exec 3<&-\nexec /bin/sleep 1000");
    dirs.plugin("40-good", &dirs.fixture());
    dirs.plugin("badname", "");
    dirs.plugin("50-noshell", "");
    fs::write(dirs.config.plugin_path.join("50-noshell"), "#!/nonexistent/shell\n").unwrap();
    let (harness, outcomes) = dirs.start().await;
    let expected = [
        ("10-exits", "ended before it registered: the program exited with code 7"),
        ("20-killed", "ended before it registered: the program was killed by signal 9 (SIGKILL)"),
        ("30-never", "did not register within 2s"),
        ("35-mute", "ended before it registered: the plugin closed the connection"),
        ("40-good", "ok 40-good"),
        ("50-noshell", "cannot be executed: No such file or directory (os error 2)"),
        ("badname", "plugin file name \"badname\" is not of the form NN-name"),
    ];
    assert_eq!(
        results(&outcomes),
        expected.map(|(name, result)| (name.to_owned(), result.to_owned()))
    );
    assert_eq!(harness.active_plugins(), ["40-good"]);
    let pid = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    assert!(!exists(pid), "30-never still exists");
    let closed: Vec<_> = harness
        .adaptation
        .plugins()
        .into_iter()
        .filter(|p| p.state == PluginState::Closed)
        .collect();
    assert_eq!(closed.len(), 6, "a closed plugin is not listed: {closed:?}");
    harness.adaptation.shutdown().await;
}

/// execvp(3) would run the file as a script of `/bin/sh`.
#[tokio::test]
async fn a_program_that_the_kernel_refuses_is_not_run_by_a_shell() {
    for no_new_privs in [false, true] {
        let mut dirs = Dirs::new();
        let privileges = Privileges { no_new_privs, ..Privileges::default() };
        dirs.policy(PluginPolicy { privileges, ..PluginPolicy::default() });
        let path = dirs.plugin("10-foreign", "");
        let by_shell = dirs.file("by-shell");
        fs::write(path, format!("\x7fELF\ntouch {}\n", by_shell.display())).unwrap();
        let (harness, outcomes) = dirs.start().await;
        let expected = "cannot be executed: Exec format error (os error 8)";
        assert_eq!(results(&outcomes), [("10-foreign".to_owned(), expected.to_owned())]);
        harness.adaptation.shutdown().await;
        assert!(!by_shell.exists());
    }
}

#[tokio::test]
async fn a_plugin_that_ignores_sigterm_is_killed_with_its_children() {
    let mut dirs = Dirs::new();
    dirs.config.stop_grace = Duration::from_millis(100);
    let child = dirs.file("child");
    // The fixture exits when the socket is closed; the shell does not.
    let script = format!(
        "trap '' TERM\n/bin/sleep 1000 3<&- &\necho $! > {}\n{} 3<&-\n\
         while :; do /bin/sleep 1000 3<&-; done",
        child.display(),
        dirs.fixture().trim_start_matches("exec "),
    );
    dirs.plugin("10-stays", &script);
    let (harness, outcomes) = dirs.start().await;
    assert_eq!(results(&outcomes)[0].1, "ok 10-stays");
    let pid = harness.adaptation.plugins()[0].pid.unwrap();
    let child: u32 = fs::read_to_string(child).unwrap().trim().parse().unwrap();
    assert!(exists(pid) && exists(child));
    harness.adaptation.shutdown().await;
    assert!(!exists(pid));
    // The orphaned child may remain a zombie until init reaps it.
    let is_dead = || match fs::read_to_string(format!("/proc/{child}/stat")) {
        Ok(stat) => matches!(stat.rsplit_once(") ").unwrap().1.as_bytes()[0], b'Z' | b'X'),
        Err(_) => true,
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_dead() {
        assert!(Instant::now() < deadline, "the child still runs");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_plugin_that_exits_is_closed_and_can_be_launched_again() {
    let mut dirs = Dirs::new();
    dirs.never_restart();
    let path = dirs.plugin("10-dies", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    let first = harness.adaptation.plugins().remove(0);
    let request =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let failures =
        harness.adaptation.stop_container(request, async |outcome| outcome.failures).await;
    assert!(failures.is_empty(), "the exit of the plugin failed the stop: {failures:?}");
    harness.log.wait("manager 10-dies Closed").await;
    let ended = harness.adaptation.plugins().remove(0);
    assert_eq!((ended.serial, ended.state), (first.serial, PluginState::Closed));
    assert_eq!(ended.last_error.as_deref(), Some("the program exited with code 3"));
    assert!(!exists(first.pid.unwrap()));
    assert!(!harness.adaptation.needs_request(Event::STOP_CONTAINER));

    assert_eq!(harness.adaptation.launch(&path).await.unwrap().to_string(), "10-dies");
    let plugins = harness.adaptation.plugins();
    assert_eq!(plugins.len(), 1, "{plugins:?}");
    assert_eq!(plugins[0].state, PluginState::Active);
    assert!(plugins[0].serial > first.serial && plugins[0].pid != first.pid);
    harness.create("c").await.unwrap();
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn the_start_fails_only_if_a_required_plugin_does_not_start() {
    for (required, plugin, fails) in [
        ("bad", "10-bad", true),
        ("10-bad", "10-bad", true),
        ("other", "10-bad", false),
        // A plugin with the name "bad.old", which the policy does not match.
        ("bad", "10-bad.old", false),
    ] {
        let mut dirs = Dirs::new();
        dirs.config.policies =
            vec![PluginPolicy { plugin: required.into(), required: true, ..Default::default() }];
        dirs.plugin(plugin, "exit 1");
        let good = dirs.file("good");
        dirs.plugin("20-good", &format!("echo $$ > {}\n{}", good.display(), dirs.fixture()));
        let result = Harness::start(dirs.config.clone()).await;
        let pid: u32 = fs::read_to_string(good).unwrap().trim().parse().unwrap();
        match result {
            Ok((harness, _)) => {
                assert!(!fails, "{required} {plugin}");
                harness.adaptation.shutdown().await;
            }
            Err(e) => {
                assert!(fails, "{required} {plugin}: {e}");
                let AdaptError::Start { plugin, .. } = &e else { panic!("{e}") };
                assert_eq!(plugin.to_string(), "10-bad");
            }
        }
        assert!(!exists(pid), "the program still runs");
    }
}
