//! Restarts of launched plugins.

use crate::harness::*;
use crate::launch::launched::{Dirs, exists, results};
use nri_adaptation::{OnFailure, PluginPolicy, PluginState};
use nri_api::proto::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime};

/// Sends a `StopContainer`, at which the fixture exits.
async fn stop(harness: &Harness) {
    let request =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    harness.adaptation.stop_container(request, async |_| ()).await;
}

/// Returns a policy with this pause before the first restart.
fn restart_after(millis: u64) -> PluginPolicy {
    PluginPolicy { restart_backoff: Some(Duration::from_millis(millis)), ..PluginPolicy::default() }
}

/// Returns the state and the last error of the only plugin.
fn state_and_error(harness: &Harness) -> (PluginState, String) {
    let plugins = harness.adaptation.plugins();
    assert_eq!(plugins.len(), 1, "{plugins:?}");
    (plugins[0].state, plugins[0].last_error.clone().unwrap_or_default())
}

#[tokio::test]
async fn a_plugin_that_exits_is_restarted_and_synchronized() {
    let mut dirs = Dirs::new();
    dirs.policy(restart_after(10));
    dirs.plugin("10-dies", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    let first = harness.adaptation.plugins()[0].pid.unwrap();
    harness.create("before").await.unwrap();
    for times in 2..4 {
        stop(&harness).await;
        harness.log.wait_times("manager 10-dies Active", times).await;
        harness.log.wait_times("manager snapshot", times).await;
    }
    let states = harness.log.of("manager 10-dies");
    assert_eq!(states[..4], ["Active", "Closed", "Restarting", "Active"]);
    assert!(!exists(first), "the first process was not reaped");
    let outcome = harness.create("c").await.unwrap();
    assert_eq!(outcome.consulted[0].to_string(), "10-dies");
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_plugin_that_cannot_start_is_retried_with_growing_pauses_until_its_file_is_removed() {
    let mut dirs = Dirs::new();
    dirs.policy(restart_after(100));
    let tried = dirs.file("tried");
    let path = dirs.plugin("10-bad", &format!("/bin/date +%s%N >> {}\nexit 5", tried.display()));
    dirs.plugin("20-good", &dirs.fixture());
    let (harness, outcomes) = dirs.start().await;
    let why = "ended before it registered: the program exited with code 5";
    assert_eq!(results(&outcomes)[0].1, why);
    harness.create("c").await.unwrap();
    harness.log.wait_times("manager 10-bad Restarting", 4).await;
    // The status shows the failure during the pause.
    let plugins = harness.adaptation.plugins();
    let bad = plugins.iter().find(|p| p.id.as_ref().unwrap().to_string() == "10-bad").unwrap();
    assert_eq!((bad.state, bad.last_error.as_deref()), (PluginState::Restarting, Some(why)));
    fs::remove_file(path).unwrap();
    let abandoned = format!("{why}; not launched again: file removed");
    let deadline = Instant::now() + Duration::from_secs(60);
    while harness.adaptation.plugins()[0].state != PluginState::Closed {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(harness.adaptation.plugins()[0].last_error.as_deref(), Some(&*abandoned));

    let tried = fs::read_to_string(tried).unwrap();
    let times: Vec<u64> = tried.lines().map(|line| line.parse().unwrap()).collect();
    assert!(times.len() >= 4, "fewer than four attempts: {times:?}");
    for (pause, minimum) in times.windows(2).map(|w| (w[1] - w[0]) / 1_000_000).zip([100, 200, 400])
    {
        assert!(pause >= minimum, "pause of {pause} ms, expected {minimum} or more");
    }
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_file_that_others_can_change_is_not_launched_again() {
    let mut dirs = Dirs::new();
    dirs.policy(restart_after(10));
    let path = dirs.plugin("10-dies", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    stop(&harness).await;
    harness.log.wait_times("manager 10-dies Closed", 2).await;
    let (state, error) = state_and_error(&harness);
    assert_eq!(state, PluginState::Closed);
    let why = format!("not launched again: {} is writable by everybody (mode 777)", path.display());
    assert!(error.starts_with("the program exited with code 3; "), "{error}");
    assert!(error.contains(&why), "{error}");
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn the_shutdown_does_not_wait_for_a_restart_pause_and_ends_restarts() {
    let mut dirs = Dirs::new();
    // Longer than the test.
    dirs.policy(restart_after(600_000));
    let tried = dirs.file("tried");
    dirs.plugin("10-bad", &format!("echo x >> {}\nexit 1", tried.display()));
    let (harness, _) = dirs.start().await;
    harness.log.wait("manager 10-bad Restarting").await;
    let start = Instant::now();
    harness.adaptation.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(60), "the shutdown waited for the pause");
    assert_eq!(fs::read_to_string(&tried).unwrap(), "x\n");
    // A plugin that the shutdown ends is not restarted either.
    let dirs = Dirs::new();
    dirs.plugin("10-good", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    harness.adaptation.shutdown().await;
    assert_eq!(harness.log.of("manager 10-good"), ["Active", "Closed"]);
}

#[tokio::test]
async fn an_explicit_launch_replaces_the_restart_pause() {
    let mut dirs = Dirs::new();
    // Longer than the test.
    dirs.policy(restart_after(600_000));
    let path = dirs.plugin("10-dies", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    stop(&harness).await;
    harness.log.wait("manager 10-dies Restarting").await;
    harness.adaptation.launch(&path).await.unwrap();
    assert_eq!(state_and_error(&harness).0, PluginState::Active);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn the_status_has_the_end_of_the_last_session_and_the_time_of_the_next_launch() {
    let mut dirs = Dirs::new();
    dirs.policy(restart_after(1));
    let marker = dirs.file("marker");
    // Ends twice, then runs.
    let script = format!(
        "echo first\necho 'cannot open /x' >&2\necho x >> {0}\n\
         [ $(/bin/grep -c x {0}) -gt 2 ] || exit 5\n{1}",
        marker.display(),
        dirs.fixture()
    );
    dirs.plugin("10-bad", &script);
    let (harness, _) = dirs.start().await;
    harness.log.wait("manager 10-bad Active").await;
    let status = harness.adaptation.plugins().remove(0);
    assert_eq!((status.last_error, status.next_launch, status.failed), (None, None, false));
    assert_eq!(status.history.restarts, 2);
    let exit = status.history.last_exit.as_deref();
    assert_eq!(exit, Some("ended before it registered: the program exited with code 5"));
    assert_eq!(status.history.last_output.as_deref(), Some("cannot open /x"));
    harness.adaptation.shutdown().await;
    let status = harness.adaptation.plugins().remove(0);
    assert!(!status.failed, "the shutdown counts as a failure");

    let mut dirs = Dirs::new();
    dirs.policy(restart_after(600_000));
    dirs.plugin("10-bad", "kill -9 $$");
    let before = SystemTime::now();
    let (harness, _) = dirs.start().await;
    harness.log.wait("manager 10-bad Restarting").await;
    let status = harness.adaptation.plugins().remove(0);
    let pause = status.next_launch.unwrap().duration_since(before).unwrap();
    assert!((600..700).contains(&pause.as_secs()), "{pause:?}");
    let why = "ended before it registered: the program was killed by signal 9 (SIGKILL)";
    assert_eq!((status.failed, status.last_error.as_deref()), (true, Some(why)));
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn an_automatic_launch_reads_a_repaired_configuration() {
    let mut dirs = Dirs::new();
    dirs.policy(restart_after(20));
    dirs.plugin("10-a", &dirs.fixture());
    let conf = dirs.config.plugin_config_path.join("10-a.conf");
    // Replaced in one step, so that no launch reads a part of the file.
    let repair = |text: &str| {
        let new = dirs.file("new.conf");
        fs::write(&new, text).unwrap();
        fs::rename(new, &conf).unwrap();
    };
    // Not UTF-8, which cannot be sent to a plugin.
    fs::write(&conf, b"\xff").unwrap();
    let (harness, outcomes) = dirs.start().await;
    let why = results(&outcomes).remove(0).1;
    assert!(why.contains("10-a.conf cannot be read"), "{why}");
    // Tried again while the file is broken, with a growing pause.
    harness.log.wait_times("manager 10-a Restarting", 3).await;
    assert_eq!(state_and_error(&harness), (PluginState::Restarting, why));
    repair("repaired");
    harness.log.wait("manager 10-a Active").await;
    let config = async || harness.create("c").await.unwrap().adjust.annotations["config"].clone();
    assert_eq!(config().await, "repaired");

    // The same after the plugin has run: broken, then repaired.
    fs::set_permissions(&conf, fs::Permissions::from_mode(0o666)).unwrap();
    stop(&harness).await;
    harness.log.wait_times("manager 10-a Closed", 1).await;
    let untrusted = || state_and_error(&harness).1.contains("configuration not trusted");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !untrusted() {
        assert!(Instant::now() < deadline, "{:?}", state_and_error(&harness));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    repair("again");
    harness.log.wait_times("manager 10-a Active", 2).await;
    assert_eq!(config().await, "again");
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_request_that_fails_with_its_plugin_names_the_exit_status() {
    let mut dirs = Dirs::new();
    dirs.policy(PluginPolicy { on_failure: OnFailure::Fail, ..restart_after(600_000) });
    dirs.plugin("10-dies", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    let request =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let failures =
        harness.adaptation.stop_container(request, async |outcome| outcome.failures).await;
    assert_eq!(
        failures[0].to_string(),
        "plugin 10-dies could not handle STOP_CONTAINER of c: the program exited with code 3; its \
         output is in the log"
    );
    harness.adaptation.shutdown().await;
}

/// The restart of `10-dies` is due 300 ms after it has exited, and a creation may take a minute.
#[tokio::test]
async fn a_creation_waits_for_a_restart_that_is_due_within_the_request_timeout() {
    for required in [false, true] {
        let mut dirs = Dirs::new();
        dirs.policy(PluginPolicy { required, ..restart_after(300) });
        dirs.plugin("10-dies", &dirs.fixture());
        let (harness, _) = dirs.start().await;
        for id in ["a", "b"] {
            stop(&harness).await;
            let outcome = harness.create(id).await.unwrap();
            let called: Vec<_> = outcome.consulted.iter().map(ToString::to_string).collect();
            assert_eq!(called, ["10-dies"]);
        }
        assert_eq!(harness.adaptation.plugins()[0].history.restarts, 2);
        harness.adaptation.shutdown().await;
    }
}

/// As above, after a timeout: the plugin's program gets SIGTERM first.
#[tokio::test]
async fn a_creation_waits_for_the_restart_after_a_timeout() {
    let mut dirs = Dirs::new();
    dirs.policy(PluginPolicy { consecutive_timeouts: Some(1), ..restart_after(100) });
    dirs.config.request_timeout = Duration::from_secs(2);
    dirs.config.stop_grace = Duration::from_millis(100);
    let stopped = dirs.file("stopped");
    // The program that has the session is stopped, so that it does not reply.
    let script =
        format!("if [ ! -e {0} ]; then echo $$ > {0}; fi\n{1}", stopped.display(), dirs.fixture());
    dirs.plugin("10-a", &script);
    let (harness, _) = dirs.start().await;
    let pid = fs::read_to_string(&stopped).unwrap();
    let kill = std::process::Command::new("kill").args(["-STOP", pid.trim()]).status().unwrap();
    assert!(kill.success());
    let called = async |id: &str| harness.create(id).await.unwrap().consulted.len();
    assert_eq!(called("no reply").await, 0);
    assert_eq!(called("waits").await, 1);
    harness.adaptation.shutdown().await;
}

/// A plugin that was never active is broken. Of a required one, a restart may help.
#[tokio::test]
async fn a_creation_waits_for_a_plugin_that_was_never_active_only_if_it_is_required() {
    for required in [false, true] {
        let mut dirs = Dirs::new();
        dirs.policy(PluginPolicy { required, ..restart_after(3_000) });
        let tried = dirs.file("tried");
        let script = format!(
            "echo x >> {0}\n[ $(/bin/grep -c x {0}) -gt 1 ] || exit 5\n{1}",
            tried.display(),
            dirs.fixture()
        );
        dirs.plugin("10-a", &script);
        dirs.config.start_without_required = true;
        let (harness, _) = dirs.start().await;
        let outcome = harness.create("c").await.unwrap();
        assert_eq!(outcome.consulted.len(), usize::from(required));
        let launches = if required { "x\nx\n" } else { "x\n" };
        assert_eq!(fs::read_to_string(&tried).unwrap(), launches);
        harness.adaptation.shutdown().await;
    }
}

/// A creation that waits for a restart has no place in the queues yet.
#[tokio::test]
async fn a_creation_that_waits_for_a_restart_delays_no_other_request() {
    let mut dirs = Dirs::new();
    dirs.policy(restart_after(1));
    let marker = dirs.file("marker");
    // The second launch hangs before it registers.
    let script = format!(
        "if [ -e {0} ]; then exec /bin/sleep 1000; fi\n: > {0}\n{1}",
        marker.display(),
        dirs.fixture()
    );
    dirs.plugin("10-dies", &script);
    dirs.plugin("20-good", &dirs.fixture());
    dirs.config.stop_grace = Duration::from_millis(100);
    let (harness, _) = dirs.start().await;
    stop(&harness).await;
    tokio::select! {
        biased;
        created = harness.create("c") => panic!("created without 10-dies: {created:?}"),
        () = stop(&harness) => {}
    }
    harness.adaptation.shutdown().await;
}
