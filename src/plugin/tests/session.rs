//! Runs plugins of the SDK against a test runtime, over real sockets.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use nri_plugin::{
    Adjustment, CallError, Changes, Creation, EventMask, Plugin, Reply, RequestError, RuntimeInfo,
    Session, SetResources, Stub, StubError, Update, eviction, proto::*,
};
use nri_wire::RuntimeEnd;
use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
};

/// A plugin that records its events, and refuses events of the pod or container "bad".
#[derive(Default)]
struct Recorder {
    received: Mutex<Vec<String>>,
}

impl Recorder {
    fn record(&self, what: &str, id: &str) -> Reply<()> {
        self.received.lock().unwrap().push(format!("{what} {id}"));
        if id == "bad" { Err("not this one".into()) } else { Ok(()) }
    }

    fn received(&self) -> Vec<String> {
        std::mem::take(&mut self.received.lock().unwrap())
    }
}

#[tokio::test]
async fn the_failure_policy_of_the_builder_is_sent() {
    for policy in [None, Some((true, false)), Some((false, true))] {
        let policy = policy.map(|(fail_request, keep_connected)| FailurePolicy {
            fail_request,
            keep_connected,
            ..Default::default()
        });
        let (ours, theirs) = UnixStream::pair().unwrap();
        let runtime = serve_runtime(ours).await;
        let mut builder = Stub::builder(Recorder::default()).name("a").index("00").stream(theirs);
        if let Some(policy) = policy.clone() {
            builder = builder.failure_policy(policy);
        }
        let _stub = builder.connect().await.unwrap();
        let request = ConfigureRequest::new();
        let reply = runtime.end.plugin().configure(TIMEOUT, &request).await.unwrap();
        assert_eq!(reply.failure_policy.into_option(), policy);
    }
}

/// A plugin that validates, subscribed to these events.
struct Validator(EventMask);

impl Plugin for Validator {
    fn events(&self) -> EventMask {
        self.0
    }
}

#[tokio::test]
async fn a_validator_asks_for_failed_requests_unless_the_builder_says_otherwise() {
    let validation = EventMask::from_iter([Event::VALIDATE_CONTAINER_ADJUSTMENT]);
    let fails = |fail_request| Some(FailurePolicy { fail_request, ..Default::default() });
    for (events, of_builder, expected) in [
        (validation, None, fails(true)),
        (validation.with(Event::CREATE_CONTAINER), None, fails(true)),
        (validation, fails(false), fails(false)),
        (EventMask::from_iter([Event::CREATE_CONTAINER]), None, None),
        // A logger.
        (EventMask::ALL, None, None),
    ] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let runtime = serve_runtime(ours).await;
        let mut builder = Stub::builder(Validator(events)).name("a").index("00").stream(theirs);
        if let Some(policy) = of_builder {
            builder = builder.failure_policy(policy);
        }
        let _stub = builder.connect().await.unwrap();
        let request = ConfigureRequest::new();
        let reply = runtime.end.plugin().configure(TIMEOUT, &request).await.unwrap();
        assert_eq!(reply.failure_policy.into_option(), expected, "{events:?}");
    }
}

impl Plugin for Recorder {
    fn events(&self) -> EventMask {
        EventMask::from_iter([Event::CREATE_CONTAINER, Event::REMOVE_CONTAINER])
    }
    async fn configure(&self, _: &Session, config: &str) -> Reply<()> {
        self.record("configure", config)
    }
    async fn synchronize(
        &self,
        _: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        let ids = |mut all: Vec<String>| {
            all.sort();
            all.join(",")
        };
        let pods = ids(pods.into_iter().map(|p| p.id).collect());
        let containers = ids(containers.into_iter().map(|c| c.id).collect());
        self.record("synchronize", &format!("{pods};{containers}"))?;
        Ok(vec![Update::new("synced")])
    }
    async fn shutdown(&self, _: &Session) {
        self.record("shutdown", "").ok();
    }
    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.record("run pod", &pod.id)
    }
    async fn update_pod_sandbox(
        &self,
        _: &Session,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> Reply<()> {
        assert_eq!((overhead.pids.limit, resources.pids.limit), (1, 2));
        self.record("update pod", &pod.id)
    }
    async fn post_update_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.record("post-update pod", &pod.id)
    }
    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.record("stop pod", &pod.id)
    }
    async fn remove_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.record("remove pod", &pod.id)
    }
    async fn create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        c: Container,
    ) -> Reply<Creation> {
        self.record("create", &format!("{}/{}", pod.id, c.id))?;
        let mut update = Update::new("other");
        update.set_pids_limit(5).set_memory_limit(6);
        let failed =
            session.update_containers(vec![update], vec![eviction("third", "full")]).await?;
        let mut adjustment = Adjustment::new();
        adjustment.add_env("FAILED", &failed[0].container_id);
        Ok(Creation {
            adjustment,
            updates: vec![Update::new("u")],
            evictions: vec![eviction("e", "why")],
        })
    }
    async fn post_create_container(&self, _: &Session, pod: PodSandbox, c: Container) -> Reply<()> {
        self.record("post-create", &format!("{}/{}", pod.id, c.id))
    }
    async fn start_container(&self, _: &Session, pod: PodSandbox, c: Container) -> Reply<()> {
        self.record("start", &format!("{}/{}", pod.id, c.id))
    }
    async fn post_start_container(&self, _: &Session, pod: PodSandbox, c: Container) -> Reply<()> {
        self.record("post-start", &format!("{}/{}", pod.id, c.id))
    }
    async fn update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        c: Container,
        resources: LinuxResources,
    ) -> Reply<Changes> {
        self.record("update", &format!("{}/{} {}", pod.id, c.id, resources.pids.limit))?;
        let mut update = Update::new(c.id);
        update.set_cpu_shares(7).set_ignore_failure(true);
        Ok(update.into())
    }
    async fn post_update_container(&self, _: &Session, pod: PodSandbox, c: Container) -> Reply<()> {
        self.record("post-update", &format!("{}/{}", pod.id, c.id))
    }
    async fn stop_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        c: Container,
    ) -> Reply<Vec<Update>> {
        self.record("stop", &format!("{}/{}", pod.id, c.id))?;
        Ok(vec![Update::new("freed")])
    }
    async fn remove_container(&self, _: &Session, pod: PodSandbox, c: Container) -> Reply<()> {
        self.record("remove", &format!("{}/{}", pod.id, c.id))
    }
    async fn validate_container_adjustment(
        &self,
        _: &Session,
        request: ValidateContainerAdjustmentRequest,
    ) -> Reply<()> {
        self.record("validate", &request.container.id)
    }
}

/// A test runtime, and a plugin that is connected to it.
struct Pair {
    runtime: TestRuntimeEnd,
    stub: Stub,
    plugin: Arc<Recorder>,
}

async fn connected() -> Pair {
    let (a, b) = UnixStream::pair().unwrap();
    let runtime = serve_runtime(a).await;
    let plugin = Arc::new(Recorder::default());
    let stub =
        Stub::shared(plugin.clone()).name("rec").index("07").stream(b).connect().await.unwrap();
    Pair { runtime, stub, plugin }
}

fn configure(config: &str) -> ConfigureRequest {
    ConfigureRequest {
        config: config.into(),
        runtime_name: "r".into(),
        runtime_version: "1".into(),
        registration_timeout: 5000,
        request_timeout: 2000,
        NRI_version: "v0.12.5".into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_plugin_registers_and_is_configured() {
    let mut p = connected().await;
    let registered = p.runtime.registered.recv().await.unwrap();
    assert_eq!((registered.plugin_name.as_str(), registered.plugin_idx.as_str()), ("rec", "07"));
    assert_eq!(registered.NRI_version, "v0.12.5");
    assert_eq!(p.stub.session().runtime(), None);
    let reply = p.runtime.end.plugin().configure(TIMEOUT, &configure("text")).await.unwrap();
    // The bits of CREATE_CONTAINER and REMOVE_CONTAINER.
    assert_eq!(reply.events, 1 << 3 | 1 << 10);
    assert_eq!(p.plugin.received(), ["configure text"]);
    let expect = RuntimeInfo {
        name: "r".into(),
        version: "1".into(),
        nri_version: "v0.12.5".into(),
        registration_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(2),
    };
    assert_eq!(p.stub.session().runtime(), Some(&expect));
}

#[tokio::test]
async fn the_parts_of_a_split_synchronize_are_joined() {
    let p = connected().await;
    let part = |pods: &[&str], containers: &[&str], more| SynchronizeRequest {
        pods: pods.iter().map(|id| pod(id)).collect(),
        containers: containers.iter().map(|id| container(id)).collect(),
        more,
        ..Default::default()
    };
    // The second synchronization must not contain parts of the first.
    for _ in 0..2 {
        for (request, more, updates) in [
            (part(&["p1", "p2"], &["a"], true), true, 0),
            (part(&[], &["b", "c"], true), true, 0),
            (part(&["p3"], &["d"], false), false, 1),
        ] {
            let reply = p.runtime.end.plugin().synchronize(TIMEOUT, &request).await.unwrap();
            assert_eq!((reply.more, reply.update.len()), (more, updates));
        }
        assert_eq!(p.plugin.received(), ["synchronize p1,p2,p3;a,b,c,d"]);
    }
}

/// Creates a request for the pod `p` and the container `c`.
macro_rules! event {
    ($request:ident) => {{
        let mut request = $request::new();
        request.pod = Some(pod("p")).into();
        request.container = Some(container("c")).into();
        request
    }};
}

#[tokio::test]
async fn dedicated_calls_and_state_change_reach_the_same_methods() {
    let p = connected().await;
    let plugin = p.runtime.end.plugin();
    macro_rules! pods {
        ($($call:ident $request:ident)*) => {$(
            let request = $request { pod: Some(pod("p")).into(), ..Default::default() };
            plugin.$call(TIMEOUT, &request).await.unwrap();
        )*};
    }
    pods! {
        run_pod_sandbox RunPodSandboxRequest
        post_update_pod_sandbox PostUpdatePodSandboxRequest
        stop_pod_sandbox StopPodSandboxRequest
        remove_pod_sandbox RemovePodSandboxRequest
    }
    plugin.post_create_container(TIMEOUT, &event!(PostCreateContainerRequest)).await.unwrap();
    plugin.start_container(TIMEOUT, &event!(StartContainerRequest)).await.unwrap();
    plugin.post_start_container(TIMEOUT, &event!(PostStartContainerRequest)).await.unwrap();
    plugin.post_update_container(TIMEOUT, &event!(PostUpdateContainerRequest)).await.unwrap();
    plugin.remove_container(TIMEOUT, &event!(RemoveContainerRequest)).await.unwrap();
    let expect = [
        "run pod p",
        "post-update pod p",
        "stop pod p",
        "remove pod p",
        "post-create p/c",
        "start p/c",
        "post-start p/c",
        "post-update p/c",
        "remove p/c",
    ];
    assert_eq!(p.plugin.received(), expect);

    for event in [
        Event::RUN_POD_SANDBOX,
        Event::POST_UPDATE_POD_SANDBOX,
        Event::STOP_POD_SANDBOX,
        Event::REMOVE_POD_SANDBOX,
        Event::POST_CREATE_CONTAINER,
        Event::START_CONTAINER,
        Event::POST_START_CONTAINER,
        Event::POST_UPDATE_CONTAINER,
        Event::REMOVE_CONTAINER,
    ] {
        let mut change = event!(StateChangeEvent);
        change.event = event.into();
        plugin.state_change(TIMEOUT, &change).await.unwrap();
    }
    assert_eq!(p.plugin.received(), expect);

    // An unknown event is ignored.
    let mut unknown = event!(StateChangeEvent);
    unknown.event = protobuf::EnumOrUnknown::from_i32(99);
    plugin.state_change(TIMEOUT, &unknown).await.unwrap();
    assert_eq!(p.plugin.received(), [""; 0]);
}

#[tokio::test]
async fn adjustments_updates_and_evictions_are_sent_in_replies() {
    let mut p = connected().await;
    let plugin = p.runtime.end.plugin();

    let reply = plugin.create_container(TIMEOUT, &event!(CreateContainerRequest)).await.unwrap();
    assert_eq!(reply.adjust.env[0].value, "other", "the handler did not receive the failed update");
    assert_eq!(
        (reply.update[0].container_id.as_str(), reply.evict[0].reason.as_str()),
        ("u", "why")
    );
    let requested = p.runtime.requested.recv().await.unwrap();
    assert_eq!(requested.update[0].linux.resources.memory.limit.value, 6);
    assert_eq!(
        (requested.update[0].linux.resources.pids.limit, requested.evict[0].reason.as_str()),
        (5, "full")
    );

    let resources = |limit| {
        let pids = LinuxPids { limit, ..Default::default() };
        Some(LinuxResources { pids: Some(pids).into(), ..Default::default() }).into()
    };
    let mut update = event!(UpdateContainerRequest);
    update.linux_resources = resources(3);
    let reply = plugin.update_container(TIMEOUT, &update).await.unwrap();
    assert_eq!(reply.update[0].linux.resources.cpu.shares.value, 7);
    assert!(reply.update[0].ignore_failure && reply.evict.is_empty());

    let reply = plugin.stop_container(TIMEOUT, &event!(StopContainerRequest)).await.unwrap();
    assert_eq!(reply.update[0].container_id, "freed");

    let mut update = UpdatePodSandboxRequest { pod: Some(pod("p")).into(), ..Default::default() };
    (update.overhead_linux_resources, update.linux_resources) = (resources(1), resources(2));
    plugin.update_pod_sandbox(TIMEOUT, &update).await.unwrap();

    let mut validate = event!(ValidateContainerAdjustmentRequest);
    assert!(!plugin.validate_container_adjustment(TIMEOUT, &validate).await.unwrap().reject);
    validate.container = Some(container("bad")).into();
    let reply = plugin.validate_container_adjustment(TIMEOUT, &validate).await.unwrap();
    assert_eq!((reply.reject, reply.reason.as_str()), (true, "not this one"));

    plugin.shutdown(TIMEOUT, &Empty::new()).await.unwrap();
    let expect = [
        "create p/c",
        "update p/c 3",
        "stop p/c",
        "update pod p",
        "validate c",
        "validate bad",
        "shutdown ",
    ];
    assert_eq!(p.plugin.received(), expect);
}

#[tokio::test]
async fn the_text_of_a_failure_is_sent_to_the_runtime() {
    let p = connected().await;
    let mut request = RunPodSandboxRequest { pod: Some(pod("bad")).into(), ..Default::default() };
    let error = p.runtime.end.plugin().run_pod_sandbox(TIMEOUT, &request).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Status { code: 2, message } if message == "not this one"),
        "{error:?}"
    );
    request.pod = None.into(); // a request without a pod is accepted
    p.runtime.end.plugin().run_pod_sandbox(TIMEOUT, &request).await.unwrap();
    assert_eq!(p.plugin.received(), ["run pod bad", "run pod "]);
}

#[tokio::test]
async fn updates_can_be_requested_at_any_time() {
    let mut p = connected().await;
    let session = p.stub.session().clone();
    let failed = session.update_containers(vec![Update::new("x")], vec![]).await.unwrap();
    assert_eq!(failed[0].container_id, "x");
    assert_eq!(p.runtime.requested.recv().await.unwrap().update.len(), 1);
    p.stub.stop().await;
    let error = session.update_containers(vec![], vec![]).await.unwrap_err();
    assert!(matches!(error, RequestError::Call(CallError::Closed(Some(_)))), "{error:?}");
}

#[tokio::test]
async fn run_returns_how_the_session_ended() {
    let p = connected().await;
    drop(p.runtime);
    p.stub.run().await.unwrap();

    let p = connected().await;
    let run = tokio::spawn(p.stub.run());
    let error = p.runtime.end.plugin().configure(TIMEOUT, &configure("bad")).await.unwrap_err();
    assert!(error.to_string().contains("not this one"));
    drop(p.runtime);
    let error = run.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "plugin 07-rec refused its configuration: not this one");

    // A peer that replies to the registration and then sends an invalid frame.
    let (a, b) = UnixStream::pair().unwrap();
    let trunk = nri_wire::Trunk::new(a);
    let mut conn = trunk.open(nri_wire::ConnId::RUNTIME).unwrap();
    let stub = Stub::builder(Recorder::default()).name("rec").index("07").stream(b);
    let replying = async {
        let mut header = [0; 10];
        tokio::io::AsyncReadExt::read_exact(&mut conn, &mut header).await.unwrap();
        let stream = &header[4..8];
        // Length 0, the stream of the request, type 2 (response), no flags.
        conn.write_all(&[&[0, 0, 0, 0], stream, &[2, 0]].concat()).await.unwrap();
    };
    let (stub, ()) = tokio::join!(stub.connect(), replying);
    let stub = stub.unwrap();
    conn.write_all(b"0123456789").await.unwrap();
    let error = stub.run().await.unwrap_err();
    assert!(matches!(error, StubError::Session { .. }), "{error:?}");
    let source = error.source().unwrap().to_string();
    assert!(source.contains("violated ttrpc"), "{source}");
}

#[tokio::test]
async fn a_registration_that_is_refused_or_times_out_is_an_error() {
    async fn check(name: &str, expect: impl Fn(&CallError) -> bool) {
        let (a, b) = UnixStream::pair().unwrap();
        let _runtime = serve_runtime(a).await;
        let builder = Stub::builder(Recorder::default()).name(name).index("07").stream(b);
        let Err(error) = builder.registration_timeout(Duration::from_millis(20)).connect().await
        else {
            panic!("{name}: registered")
        };
        assert!(
            matches!(&error, StubError::Register { source, .. } if expect(source)),
            "{name}: {error:?}"
        );
    }
    check("unwanted", |e| matches!(e, CallError::Status { message, .. } if message == "not you"))
        .await;
    check("ignored", |e| matches!(e, CallError::Timeout(_))).await;

    // The peer has closed the connection.
    let (a, b) = UnixStream::pair().unwrap();
    drop(a);
    let Err(error) =
        Stub::builder(Recorder::default()).name("p").index("07").stream(b).connect().await
    else {
        panic!("registered")
    };
    assert!(matches!(
        error,
        StubError::Register { source: CallError::Closed(_), .. } | StubError::Wire(_)
    ));
}

#[tokio::test]
async fn the_first_socket_that_accepts_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    drop(UnixListener::bind(path("dead")).unwrap());
    let listener = UnixListener::bind(path("live")).unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        serve_runtime(stream).await
    };
    let builder = || Stub::builder(Recorder::default()).name("p").index("07");
    let builder = |names: &[&str]| names.iter().fold(builder(), |b, n| b.socket_path(path(n)));
    let (stub, _runtime) = tokio::join!(builder(&["missing", "dead", "live"]).connect(), serve);
    stub.unwrap();

    let Err(error) = builder(&["missing", "dead"]).connect().await else { panic!("connected") };
    let text = error.to_string();
    assert!(
        text.contains("missing: No such file") && text.contains("dead: Connection refused"),
        "{text}"
    );
}

#[tokio::test]
async fn a_plugin_that_reconnects_is_configured_again() {
    let plugin = Arc::new(Recorder::default());
    for n in 0..2 {
        let (a, b) = UnixStream::pair().unwrap();
        let runtime = serve_runtime(a).await;
        let stub =
            Stub::shared(plugin.clone()).name("p").index("07").stream(b).connect().await.unwrap();
        runtime.end.plugin().configure(TIMEOUT, &configure(&n.to_string())).await.unwrap();
        RuntimeEnd::close(&runtime.end);
        stub.run().await.unwrap();
    }
    assert_eq!(plugin.received(), ["configure 0", "configure 1"]);
}
