//! Plugins without which a container is created.

use crate::harness::*;
use crate::launch::launched::{Dirs, exists};
use nri_adaptation::{AdaptationConfig, OnFailure, PluginPolicy, RequestContext};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use std::process::Command;
use std::time::Duration;

/// Creates a container. Returns the plugins that it missed, each with the reason.
pub(crate) async fn missed(harness: &Harness) -> Vec<String> {
    let request = CreateContainerRequest {
        pod: Some(pod("p")).into(),
        container: Some(container("c")).into(),
        ..Default::default()
    };
    let context = RequestContext::default();
    let adaptation = &harness.adaptation;
    adaptation.create_container(request, &context, async |_| (), async |()| ()).await.unwrap();
    context.missed().iter().map(|m| format!("{}: {}", m.plugin, m.why)).collect()
}

/// Returns a policy whose restart pause is longer than any test.
fn never_back() -> PluginPolicy {
    PluginPolicy { restart_backoff: Some(Duration::from_secs(600)), ..PluginPolicy::default() }
}

#[tokio::test]
async fn a_launched_plugin_that_does_not_run_is_missed() {
    let mut dirs = Dirs::new();
    dirs.policy(never_back());
    dirs.plugin("10-bad", "echo no config >&2\nexit 5");
    dirs.plugin("20-good", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    harness.log.wait("manager 10-bad Restarting").await;
    let why = "it is about to be launched again: ended before it registered: the program exited \
               with code 5";
    assert_eq!(missed(&harness).await, [format!("10-bad: {why}")]);
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_launched_plugin_that_has_not_registered_is_missed() {
    let mut dirs = Dirs::new();
    dirs.policy(PluginPolicy {
        restart_backoff: Some(Duration::from_millis(1)),
        // A creation waits so long for the second launch.
        timeout: Some(Duration::from_secs(1)),
        ..PluginPolicy::default()
    });
    let marker = dirs.file("marker");
    // The first launch succeeds; the second one hangs before it registers.
    let script = format!(
        "if [ -e {0} ]; then echo $$ > {0}; exec /bin/sleep 1000; fi\n: > {0}\n{1}",
        marker.display(),
        dirs.fixture()
    );
    dirs.plugin("10-slow", &script);
    dirs.config.stop_grace = Duration::from_millis(100);
    let (harness, _) = dirs.start().await;
    assert_eq!(missed(&harness).await, [""; 0]);
    let stop =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    harness.adaptation.stop_container(stop, async |_| ()).await;
    let pid: u32 = loop {
        match std::fs::read_to_string(&marker).unwrap().trim().parse() {
            Ok(pid) => break pid,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let why = "it was launched and has not registered yet: the program exited with code 3";
    assert_eq!(missed(&harness).await, [format!("10-slow: {why}")]);
    harness.adaptation.shutdown().await;
    assert!(!exists(pid));
}

/// The reason for the end of a session may be known only a second after the connection has ended:
/// the exit status of a program that still runs. A validator whose connection has ended is one that
/// is not connected, not one that fails to reply.
#[tokio::test]
async fn a_validator_is_missed_as_soon_as_its_connection_has_ended() {
    for required in [false, true] {
        let mut dirs = Dirs::new();
        dirs.policy(PluginPolicy { required, ..never_back() });
        std::fs::write(dirs.config.plugin_config_path.join("10-v.conf"), "validator").unwrap();
        let pid_file = dirs.file("pid");
        let fixture = env!("CARGO_BIN_EXE_nri-adaptation-fixture");
        // Only the fixture holds the connection.
        let script = format!(
            "{fixture} <&3 3<&- &\necho $! > {}\nexec 3<&-\nwait\nexec /bin/sleep 1000",
            pid_file.display()
        );
        dirs.plugin("10-v", &script);
        dirs.config.stop_grace = Duration::from_millis(100);
        let (harness, _) = dirs.start().await;
        assert_eq!(missed(&harness).await, [""; 0]);
        let fixture: u32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        assert!(
            Command::new("kill").arg("-9").arg(fixture.to_string()).status().unwrap().success()
        );
        let mut is_gone = false;
        while !is_gone {
            is_gone = !exists(fixture);
            // The end of the connection is received meanwhile.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if required {
            let error = harness.create("c").await.unwrap_err();
            assert_eq!(error, "required plugin * is not active, so c cannot be created");
        } else {
            let missed = missed(&harness).await;
            assert!(missed.len() == 1 && missed[0].starts_with("10-v: "), "{missed:?}");
        }
        harness.adaptation.shutdown().await;
    }
}

#[tokio::test]
async fn a_plugin_whose_file_was_removed_is_not_missed() {
    let mut dirs = Dirs::new();
    dirs.policy(never_back());
    let path = dirs.plugin("10-a", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    std::fs::remove_file(path).unwrap();
    harness.adaptation.reload(dirs.config.clone()).await;
    assert_eq!(missed(&harness).await, [""; 0]);
    harness.adaptation.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_does_not_reply_is_missed_once() {
    let policy = PluginPolicy {
        plugin: "*".into(),
        validation_failure: OnFailure::Ignore,
        consecutive_timeouts: Some(0),
        ..PluginPolicy::default()
    };
    let config = AdaptationConfig { policies: vec![policy], ..AdaptationConfig::default() };
    let harness = Harness::with(config).await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Quiet).await;
    // Plugins without a subscription to creations take part, too.
    let _b = harness.plugin("20-b", &[STOP_CONTAINER], Quiet).await;
    let both = [CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    let _c = harness.plugin("30-c", &both, Hangs).await;
    let _d = harness.plugin("40-d", &[VALIDATE_CONTAINER_ADJUSTMENT], Hangs).await;
    assert_eq!(
        missed(&harness).await,
        [
            "30-c: CREATE_CONTAINER: no reply within 2s",
            "40-d: VALIDATE_CONTAINER_ADJUSTMENT: no reply within 2s"
        ]
    );
}
