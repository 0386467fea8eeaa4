//! Registration, configuration, synchronization in parts, and the end of sessions.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{AdaptError, AdaptationConfig, PluginOrigin, PluginPolicy, PluginState};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_api::{EventMask, MAX_MESSAGE, NRI_VERSION};
use nri_wire::{RuntimeClient, ttrpc};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};

#[tokio::test(start_paused = true)]
async fn a_registration_with_an_invalid_name_is_refused_with_the_reason() {
    for (index, name, why) in [
        ("1", "a", "plugin index \"1\" is not two digits"),
        ("xx", "a", "plugin index \"xx\" is not two digits"),
        ("", "a", "plugin index \"\" is not two digits"),
        ("10", "", "plugin name \"\" is not one or more of A-Z a-z 0-9 _ . + -"),
        ("10", "a/b", "plugin name \"a/b\" is not one or more of A-Z a-z 0-9 _ . + -"),
    ] {
        let harness = Harness::new().await;
        let (peer, connecting) = harness.connect_unregistered("10-a", &[], Quiet).await;
        let error = peer.register_as(index, name).await.unwrap_err();
        assert_eq!(error.to_string(), why);
        assert_eq!(connecting.await.unwrap().unwrap_err().to_string(), why);
        peer.end.closed().await;
        assert_eq!(harness.log.of("manager"), ["? Closed"]);
        assert!(!harness.adaptation.has_plugins());
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_registration_in_a_session_is_refused() {
    let harness = Harness::new().await;
    let peer = harness.plugin("10-a", &[], Quiet).await;
    let error = peer.register_as("20", "b").await.unwrap_err();
    assert_eq!(error.to_string(), "the plugin has registered already");
    assert_eq!(harness.active_plugins(), ["10-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_does_not_register_in_time_is_disconnected() {
    let harness = Harness::new().await;
    let (peer, connecting) = harness.connect_unregistered("10-a", &[], Quiet).await;
    assert_eq!(connecting.await.unwrap().unwrap_err().to_string(), "did not register within 5s");
    peer.end.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_disconnects_before_it_registers_is_reported() {
    let harness = Harness::new().await;
    let (peer, connecting) = harness.connect_unregistered("10-a", &[], Quiet).await;
    peer.end.close();
    let error = connecting.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "ended before it registered: the plugin closed the connection");
}

#[tokio::test(start_paused = true)]
async fn garbage_closes_only_the_connection_that_it_was_sent_on() {
    let harness = Harness::new().await;
    let _good = harness.plugin("10-a", &[], Quiet).await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 64]] {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        theirs.write_all(garbage).await.unwrap();
        let error = harness.adaptation.connect(ours, None).await.unwrap_err();
        let expected = "ended before it registered: the plugin violated the protocol: ";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    harness.create("c").await.unwrap();
    assert_eq!(harness.active_plugins(), ["10-a"]);
}

/// Replies to `Configure` with these event bits, and records the request.
struct Configured(i32, Arc<Mutex<Option<ConfigureRequest>>>);

#[async_trait]
impl Script for Configured {
    async fn configure(&self, r: ConfigureRequest) -> Option<ttrpc::Result<ConfigureResponse>> {
        *self.1.lock().unwrap() = Some(r);
        Some(Ok(ConfigureResponse { events: self.0, ..Default::default() }))
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_event_bits_are_refused() {
    // Bits 0 to 13 are the known events.
    for (bits, unknown) in [(1 << 14, "0x4000"), (-1, "0xffffc000"), (i32::MIN | 1, "0x80000000")] {
        let harness = Harness::new().await;
        let (peer, connecting) =
            harness.connect_unregistered("10-a", &[], Configured(bits, Arc::default())).await;
        peer.register().await.unwrap();
        let error = connecting.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), format!("unknown event bits {unknown} in the subscription"));
        peer.end.closed().await;
        assert_eq!(harness.log.of("manager"), ["10-a Closed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn configure_sends_runtime_name_timeouts_and_nri_version() {
    let policy = PluginPolicy {
        plugin: "10-a".into(),
        timeout: Some(Duration::from_millis(1500)),
        ..Default::default()
    };
    let config = AdaptationConfig {
        runtime_name: "engine".into(),
        runtime_version: "1.2".into(),
        policies: vec![policy],
        ..AdaptationConfig::default()
    };
    for (name, request_timeout) in [("10-a", 1500), ("20-a", 2000)] {
        let harness = Harness::with(config.clone()).await;
        let received = Arc::default();
        let events = EventMask::from_iter([STOP_CONTAINER, CREATE_CONTAINER]);
        let _peer =
            harness.plugin(name, &[], Configured(events.bits(), Arc::clone(&received))).await;
        let expected = ConfigureRequest {
            runtime_name: "engine".into(),
            runtime_version: "1.2".into(),
            registration_timeout: 5000,
            request_timeout,
            NRI_version: NRI_VERSION.into(),
            ..Default::default()
        };
        assert_eq!(received.lock().unwrap().take(), Some(expected));
        let status = harness.adaptation.plugins().remove(0);
        assert_eq!(status.events, events);
        assert_eq!((status.version.as_str(), status.pid), ("v0.12.0", Some(42)));
        assert_eq!((status.origin, status.state), (PluginOrigin::External, PluginState::Active));
    }
}

/// Records the messages of its synchronization. An old plugin supports only one message.
struct Collect {
    old: bool,
    parts: Arc<Mutex<Vec<SynchronizeRequest>>>,
}

#[async_trait]
impl Script for Collect {
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        r: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        let more = r.more && !self.old;
        self.parts.lock().unwrap().push(r);
        Ok(SynchronizeResponse { more, ..Default::default() })
    }
}

async fn harness_with_containers(containers: usize) -> Harness {
    let harness = Harness::new().await;
    let mut state = harness.manager.state.lock().unwrap();
    state.pods = (0..3).map(|i| pod(&format!("p{i}"))).collect();
    for i in 0..containers {
        let mut c = container(&format!("c{i}"));
        c.env = vec!["x".repeat(1000); 50];
        state.containers.push(c);
    }
    drop(state);
    harness
}

#[tokio::test(start_paused = true)]
async fn a_large_snapshot_is_sent_in_several_messages() {
    // A container takes about 50 kB, so a message of 4 MiB holds 83.
    for (containers, count) in [(0, 1), (80, 1), (500, 7)] {
        let harness = harness_with_containers(containers).await;
        let parts = Arc::default();
        let peer = Collect { old: false, parts: Arc::clone(&parts) };
        let _peer = harness.plugin("10-a", &[], peer).await;
        let parts = parts.lock().unwrap();
        assert_eq!(parts.len(), count, "{containers} containers");
        let state = harness.manager.state.lock().unwrap();
        assert_eq!(parts.iter().flat_map(|p| p.pods.clone()).collect::<Vec<_>>(), state.pods);
        assert_eq!(
            parts.iter().flat_map(|p| p.containers.clone()).collect::<Vec<_>>(),
            state.containers
        );
        let more: Vec<_> = parts.iter().map(|p| p.more).collect();
        assert_eq!(more.iter().filter(|m| **m).count(), count - 1);
        assert_eq!(more.last(), Some(&false));
        let size = |p: &SynchronizeRequest| protobuf::Message::compute_size(p) as usize;
        assert!(parts.iter().all(|p| size(p) < MAX_MESSAGE));
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_plugin_is_refused_if_the_snapshot_takes_several_messages() {
    let harness = harness_with_containers(80).await;
    let _synchronized =
        harness.plugin("10-a", &[], Collect { old: true, parts: Arc::default() }).await;
    let harness = harness_with_containers(500).await;
    let parts = Arc::default();
    let (peer, connecting) = harness
        .connect_unregistered("10-a", &[], Collect { old: true, parts: Arc::clone(&parts) })
        .await;
    peer.register().await.unwrap();
    let text = "cannot be synchronized: the snapshot takes 7 messages, \
                and the plugin is too old for more than one";
    assert_eq!(connecting.await.unwrap().unwrap_err().to_string(), text);
    peer.end.closed().await;
    assert_eq!(parts.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_disconnects_plugins_and_later_requests_succeed() {
    let harness = Harness::new().await;
    let peer = harness.plugin("10-a", &[], Quiet).await;
    let (waiting, connecting) = harness.connect_unregistered("20-b", &[], Quiet).await;
    harness.adaptation.shutdown().await;
    assert!(peer.end.closed().await.is_clean());
    assert!(waiting.end.closed().await.is_clean());
    let why = "no plugin is accepted: shutting down";
    assert_eq!(connecting.await.unwrap().unwrap_err().to_string(), why);
    assert!(!harness.adaptation.has_plugins());
    assert_eq!(harness.log.of("10-a shutdown"), [""; 0], "an external plugin got Shutdown");
    harness.create("c").await.unwrap();
    let (late, connecting) = harness.connect_unregistered("30-c", &[], Quiet).await;
    assert_eq!(connecting.await.unwrap().unwrap_err().to_string(), why);
    late.end.closed().await;
}

#[tokio::test]
async fn plugins_connect_to_any_of_the_sockets() {
    let harness = Harness::new().await;
    let dir = tempfile::tempdir().unwrap();
    for (name, path) in
        [("10-a", dir.path().join("one.sock")), ("20-b", dir.path().join("two.sock"))]
    {
        harness.adaptation.serve(UnixListener::bind(&path).unwrap()).unwrap();
        let stream = UnixStream::connect(&path).await.unwrap();
        let peer = harness.serve_quiet(name, stream).await;
        peer.register().await.unwrap();
        harness.log.wait(&format!("manager {name} Active")).await;
        let status = harness.adaptation.plugins().into_iter().last().unwrap();
        assert_eq!(status.pid, Some(std::process::id()));
        // Keep the session open until the end of the test.
        std::mem::forget(peer);
    }
    assert_eq!(harness.active_plugins(), ["10-a", "20-b"]);
    harness.adaptation.shutdown().await;
    for path in ["one.sock", "two.sock"] {
        let error = UnixStream::connect(dir.path().join(path)).await.unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionRefused,
            "the listener is still open"
        );
    }
}

#[tokio::test]
async fn serve_fails_if_connections_are_disabled() {
    let harness = Harness::with(AdaptationConfig {
        disable_connections: true,
        ..AdaptationConfig::default()
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("nri.sock")).unwrap();
    assert!(matches!(harness.adaptation.serve(listener), Err(AdaptError::ConnectionsDisabled)));
}
