//! Which session may replace another one of its index and name.

use crate::harness::*;
use crate::launch::launched::Dirs;
use crate::replacement::{Version, adjusted, version};
use nri_adaptation::{PluginPolicy, PluginStatus, SessionError};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use std::time::Duration;

impl Harness {
    /// Registers as `10-a`, and returns the error.
    async fn refused_version(&self, pid: u32) -> String {
        let (peer, connecting) = self.connect_process(pid, "refused", &[], Quiet).await;
        let reply = peer.register_as("10", "a").await.unwrap_err().to_string();
        let error = connecting.await.unwrap().unwrap_err().to_string();
        assert_eq!(reply, error, "the plugin gets the reason");
        peer.end.closed().await;
        error
    }
}

#[tokio::test(start_paused = true)]
async fn a_third_replacement_within_a_minute_is_refused() {
    let harness = Harness::new().await;
    let mut sessions = Vec::new();
    for (pid, name) in [(1, "first"), (2, "second"), (3, "third")] {
        sessions.push(harness.active_version(pid, &[CREATE_CONTAINER], version(name)).await);
    }
    let refused = |pid: u32| {
        format!(
            "refused: process 3 has registered as 10-a already, and process {pid} may not replace \
             it: sessions of this name were replaced twice within a minute, or could not be \
             synchronized before containers changed; end one of the processes, or give it another \
             index or name"
        )
    };
    for pid in [4, 5] {
        assert_eq!(harness.refused_version(pid).await, refused(pid));
    }
    assert_eq!(adjusted(harness.spawn_create("c")).await, "third");
    // The last refusal is listed, and does not count as a restart.
    let listed = |s: &PluginStatus| (s.pid, s.replacement_refused, s.last_error.clone());
    let all: Vec<_> = harness.sessions().iter().map(listed).collect();
    assert_eq!(all, [(Some(3), false, None), (Some(5), true, Some(refused(5)))]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let _fourth = harness.active_version(6, &[CREATE_CONTAINER], version("fourth")).await;
    assert_eq!(adjusted(harness.spawn_create("c")).await, "fourth");
    sessions[2].end.closed().await;
    run_until_idle().await;
    let all: Vec<_> = harness.sessions().iter().map(|s| (s.pid, s.history.restarts)).collect();
    assert_eq!(all, [(Some(6), 3)]);
}

#[tokio::test(start_paused = true)]
async fn refusals_go_on_for_as_long_as_programs_try() {
    let harness = Harness::new().await;
    let mut sessions = Vec::new();
    for (pid, name) in [(1, "first"), (2, "second"), (3, "third")] {
        sessions.push(harness.active_version(pid, &[CREATE_CONTAINER], version(name)).await);
    }
    for pid in 4..14 {
        let refused = harness.refused_version(pid).await;
        assert!(refused.contains("were replaced twice within a minute"), "{refused}");
        tokio::time::advance(Duration::from_secs(30)).await;
    }
    assert_eq!(adjusted(harness.spawn_create("c")).await, "third");
    tokio::time::advance(Duration::from_secs(30)).await;
    let _fourth = harness.active_version(14, &[CREATE_CONTAINER], version("fourth")).await;
}

/// A program that connects again when it is replaced: without a rule, it and its successor would
/// replace each other, and a successor that ends when it is replaced would be gone.
#[tokio::test(start_paused = true)]
async fn a_process_that_was_replaced_does_not_replace_its_successor() {
    let harness = Harness::new().await;
    let first = harness.active_version(1, &[CREATE_CONTAINER], version("first")).await;
    let second = harness.active_version(2, &[CREATE_CONTAINER], version("second")).await;
    first.end.closed().await;
    for _ in 0..10 {
        let expected = "refused: process 2 has registered as 10-a already, and process 1 may not \
                        replace it: it has replaced a session of this process or of its service, \
                        which comes back again and again; end one of the processes, or give it \
                        another index or name";
        assert_eq!(harness.refused_version(1).await, expected);
        tokio::time::advance(Duration::from_secs(30)).await;
    }
    assert_eq!(adjusted(harness.spawn_create("c")).await, "second");
    let listed = |s: &PluginStatus| (s.pid, s.replacement_refused);
    let all: Vec<_> = harness.sessions().iter().map(listed).collect();
    assert_eq!(all, [(Some(2), false), (Some(1), true)]);
    // It takes over when the successor has left.
    second.end.close();
    harness.log.wait("manager 10-a Closed").await;
    let _again = harness.active_version(1, &[CREATE_CONTAINER], version("again")).await;
    assert_eq!(adjusted(harness.spawn_create("d")).await, "again");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_wait_for_their_turn_replace_one_another_in_their_order() {
    let (harness, create) = (Harness::new().await, Gate::new());
    let script = Version { create: Some(create.clone()), ..version("first") };
    let _first = harness.active_version(1, &[CREATE_CONTAINER], script).await;
    let before = harness.spawn_create("before");
    harness.log.wait("first create_container before").await;
    let second = harness.version(2, &[CREATE_CONTAINER], version("second")).await;
    let after_second = harness.spawn_create("after the second");
    run_until_idle().await;
    let third = harness.version(3, &[CREATE_CONTAINER], version("third")).await;
    let after_third = harness.spawn_create("after the third");
    run_until_idle().await;
    // Those that wait count, too.
    let refused = harness.refused_version(4).await;
    assert!(refused.contains("process 3 has registered as 10-a already"), "{refused}");
    create.open();
    for (created, version) in [(before, "first"), (after_second, "second"), (after_third, "third")]
    {
        assert_eq!(adjusted(created).await, version);
    }
    second.1.await.unwrap().unwrap();
    third.1.await.unwrap().unwrap();
    assert_eq!(harness.active_plugins(), ["10-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_left_and_connects_again_replaces_nothing() {
    let harness = Harness::new().await;
    for round in 0..5 {
        let peer = harness.active_version(1, &[CREATE_CONTAINER], version("again")).await;
        peer.end.close();
        harness.log.wait_times("manager 10-a Closed", round + 1).await;
    }
    assert_eq!(harness.log.of("again shutdown"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_name_at_several_indices_is_several_plugins() {
    let harness = Harness::new().await;
    let _a = harness.plugin("10-differ", &[CREATE_CONTAINER], Quiet).await;
    let _b = harness.plugin("20-differ", &[CREATE_CONTAINER], Quiet).await;
    harness.create("c").await.unwrap();
    assert_eq!(harness.active_plugins(), ["10-differ", "20-differ"]);
    for name in ["10-differ", "20-differ"] {
        assert_eq!(harness.log.of(name), ["synchronize ", "create_container c"]);
    }
}

#[tokio::test]
async fn an_external_session_replaces_no_launched_one() {
    let mut dirs = Dirs::new();
    dirs.policy(PluginPolicy {
        restart_backoff: Some(Duration::from_secs(600)),
        ..Default::default()
    });
    dirs.plugin("10-a", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    let pid = harness.sessions()[0].pid.unwrap();
    let refused = |holder: String| {
        format!(
            "refused: {holder} has registered as 10-a already, and process 7 may not replace it: \
             it is a launched plugin, which no external one replaces; connect with another index \
             or name, or remove the file of the launched plugin"
        )
    };
    assert_eq!(harness.refused_version(7).await, refused(format!("process {pid}")));
    // The fixture exits when a container stops.
    let stop =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    harness.adaptation.stop_container(stop, async |_| ()).await;
    harness.log.wait("manager 10-a Restarting").await;
    assert_eq!(harness.refused_version(7).await, refused("an unknown process".to_owned()));
    harness.adaptation.shutdown().await;
}

#[tokio::test]
async fn a_launched_session_replaces_no_external_one() {
    let mut dirs = Dirs::new();
    dirs.never_restart();
    let (harness, _) = dirs.start().await;
    let _external = harness.active_version(7, &[CREATE_CONTAINER], version("external")).await;
    let path = dirs.plugin("10-a", &dirs.fixture());
    let error = harness.adaptation.launch(&path).await.unwrap_err();
    let SessionError::Replacement(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.holder, Some(7));
    let why = "it is an external plugin, which no launched one replaces; end the external plugin, \
               or give one of them another index or name";
    let pid = refused.pid.unwrap();
    let text = format!(
        "refused: process 7 has registered as 10-a already, and process {pid} may not replace it: \
         {why}"
    );
    assert_eq!(error.to_string(), text);
    assert_eq!(adjusted(harness.spawn_create("c")).await, "external");
    harness.adaptation.shutdown().await;
}

/// Requests wait for each synchronization, so that further attempts would delay them for ever.
#[tokio::test(start_paused = true)]
async fn sessions_that_cannot_follow_the_changes_are_refused_after_two_attempts() {
    let harness = Harness::new().await;
    let _old = harness.active_version(1, &[CREATE_CONTAINER], version("old")).await;
    let mut containers: Vec<String> = Vec::new();
    for pid in [2, 3] {
        let gate = Gate::new();
        let script = Version { synchronize: Some(gate.clone()), ..version("new") };
        let (_new, connecting) = harness.version(pid, &[CREATE_CONTAINER], script).await;
        for number in 0..5 {
            harness.log.wait(&format!("new synchronize {}", containers.join(","))).await;
            let name = format!("c{pid}{number}");
            assert_eq!(adjusted(harness.spawn_create(&name)).await, "old");
            containers.push(name);
            gate.open();
        }
        let error = connecting.await.unwrap().unwrap_err();
        assert!(matches!(error, SessionError::Outdated { times: 5 }), "{error}");
    }
    let error = harness.refused_version(4).await;
    assert!(error.contains("could not be synchronized before containers changed"), "{error}");
    tokio::time::advance(Duration::from_secs(60)).await;
    let _new = harness.active_version(5, &[CREATE_CONTAINER], version("new")).await;
    assert_eq!(adjusted(harness.spawn_create("after")).await, "new");
}
