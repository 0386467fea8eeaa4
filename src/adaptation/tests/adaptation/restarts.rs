//! Restarts of launched plugins.

use crate::harness::*;
use crate::launched::{Dirs, exists, results};
use nri_adaptation::{PluginPolicy, PluginState};
use nri_api::proto::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

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
