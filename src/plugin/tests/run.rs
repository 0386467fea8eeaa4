//! Runs plugins as programs do: connected again after their session, and stopped in order.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::*;
use nri_plugin::{Mistake, Stub, StubError, prelude::*, proto::*, testing};
use std::sync::Arc;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};

/// A plugin that replies to a creation when the test permits it, and makes the mistake that the
/// container's name says.
struct Slow {
    started: Arc<Semaphore>,
    permitted: Arc<Semaphore>,
}

impl Slow {
    fn new(permits: usize) -> Self {
        let semaphore = |n| Arc::new(Semaphore::new(n));
        Self { started: semaphore(0), permitted: semaphore(permits) }
    }
}

impl Plugin for Slow {
    async fn configure(&self, _: &Session, config: &str) -> Reply<()> {
        if config.is_empty() { Ok(()) } else { Err("not this one".into()) }
    }

    async fn synchronize(
        &self,
        _: &Session,
        _: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        Ok(containers.into_iter().map(|c| Update::new(c.name)).collect())
    }

    async fn create_container(
        &self,
        session: &Session,
        _: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        self.started.add_permits(1);
        self.permitted.acquire().await?.forget();
        let mut reply = Creation::default();
        reply.adjustment.add_env("A", "1");
        match container.name.as_str() {
            "twice" => _ = reply.adjustment.remove_env("A"),
            "itself" => reply.updates.push(Update::new(container.id)),
            "request" => {
                let mut update = Update::new("other");
                update.set_pids_limit(1).set_pids_limit(1);
                session.update_containers(vec![update], vec![]).await?;
            }
            "evict" => {
                session.update_containers(vec![], vec![eviction("x", "full")]).await?;
            }
            _ => {}
        }
        Ok(reply)
    }
}

fn create() -> CreateContainerRequest {
    CreateContainerRequest { container: Some(container("c")).into(), ..Default::default() }
}

async fn accept(listener: &UnixListener) -> TestRuntimeEnd {
    let (stream, _) = timeout(TIMEOUT, listener.accept()).await.unwrap().unwrap();
    let mut runtime = serve_runtime(stream).await;
    let registered = timeout(TIMEOUT, runtime.registered.recv()).await.unwrap().unwrap();
    assert_eq!((&*registered.plugin_idx, &*registered.plugin_name), ("07", "slow"));
    runtime
}

#[tokio::test]
async fn an_external_plugin_connects_again_and_is_registered_again() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    // The runtime is absent at first.
    let plugin = Stub::builder(Slow::new(9)).name("slow").index("07").socket_path(&socket);
    let run = tokio::spawn(plugin.run());
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    for _ in 0..2 {
        let listener = UnixListener::bind(&socket).unwrap();
        for _ in 0..2 {
            let runtime = accept(&listener).await;
            let plugin = runtime.end.plugin();
            let reply = plugin.configure(TIMEOUT, &ConfigureRequest::new()).await.unwrap();
            // The bit of CREATE_CONTAINER: the only event that the plugin handles.
            assert_eq!(reply.events, 1 << 3);
            let reply = plugin.create_container(TIMEOUT, &create()).await.unwrap();
            assert_eq!(reply.adjust.env[0].key, "A");
        }
        // The runtime is gone for a while.
        drop(listener);
        std::fs::remove_file(&socket).unwrap();
    }
    assert!(!run.is_finished());
    let listener = UnixListener::bind(&socket).unwrap();
    let runtime = accept(&listener).await;
    let bad = ConfigureRequest { config: "bad".into(), ..Default::default() };
    runtime.end.plugin().configure(TIMEOUT, &bad).await.unwrap_err();
    drop(runtime);
    // Another attempt would fail again.
    let error = timeout(TIMEOUT, run).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(&error, StubError::Configure { reason, .. } if reason == "not this one"));
}

#[tokio::test]
async fn an_external_plugin_that_is_shut_down_does_not_connect_again() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let plugin = Stub::builder(Slow::new(0)).name("slow").index("07").socket_path(&socket);
    let run = tokio::spawn(plugin.run());
    let runtime = accept(&listener).await;
    runtime.end.plugin().shutdown(TIMEOUT, &Empty::new()).await.unwrap();
    drop(runtime);
    timeout(TIMEOUT, run).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_plugin_with_one_connection_ends_with_it() {
    let (a, b) = UnixStream::pair().unwrap();
    let run = tokio::spawn(Stub::builder(Slow::new(0)).name("slow").index("07").stream(b).run());
    let mut runtime = serve_runtime(a).await;
    timeout(TIMEOUT, runtime.registered.recv()).await.unwrap().unwrap();
    drop(runtime);
    timeout(TIMEOUT, run).await.unwrap().unwrap().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let once = Stub::builder(Slow::new(0)).name("slow").index("07").once();
    let error = once.socket_path(dir.path().join("missing")).run().await.unwrap_err();
    assert!(matches!(error, StubError::Connect(_)), "{error:?}");
}

#[tokio::test]
async fn stop_waits_for_the_reply_to_an_event() {
    let (a, b) = UnixStream::pair().unwrap();
    let runtime = serve_runtime(a).await;
    let slow = Slow::new(0);
    let (started, permitted) = (slow.started.clone(), slow.permitted.clone());
    let stub = Stub::builder(slow).name("slow").index("07").stream(b).connect().await.unwrap();
    let stopping = async {
        started.acquire().await.unwrap().forget();
        let permit = async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            permitted.add_permits(1);
        };
        tokio::join!(stub.stop(), permit);
    };
    let request = create();
    let creation = runtime.end.plugin().create_container(TIMEOUT, &request);
    let (reply, ()) = tokio::join!(creation, stopping);
    assert_eq!(reply.unwrap().adjust.env[0].key, "A");
    timeout(TIMEOUT, runtime.end.closed()).await.unwrap();
}

#[test]
fn a_mistake_in_a_reply_is_the_error_of_the_event() {
    let runtime = testing::InProcessRuntime::start(Slow::new(9), "").unwrap();
    let pod = testing::pod("p");
    let create = |name: &str| runtime.create_container(&pod, &testing::container(&pod, name));
    assert_eq!(testing::env(&create("c").unwrap(), "A"), Some("1"));
    assert_eq!(testing::env(&create("c").unwrap(), "B"), None);
    let refused = |mistake: Mistake| Err(testing::Refused(mistake.to_string()));
    assert_eq!(create("twice"), refused(Mistake::Twice("env[A]".into())));
    assert_eq!(create("itself"), refused(Mistake::Created("p-itself".into())));
    assert_eq!(create("request"), refused(Mistake::Twice("pids.limit".into())));
    assert!(runtime.take_requests().is_empty());
    create("evict").unwrap();
    assert_eq!(runtime.take_requests()[0].evict[0].reason, "full");
    assert!(runtime.take_requests().is_empty());

    let containers = ["a", "b"].map(|name| testing::container(&pod, name));
    let updates = runtime.synchronize(std::slice::from_ref(&pod), &containers).unwrap();
    assert_eq!(updates.len(), 2);
    let nameless = testing::container(&pod, "");
    let refused = runtime.synchronize(&[pod], &[nameless]).unwrap_err();
    assert_eq!(refused.to_string(), Mistake::NoContainer.to_string());
    let error = testing::InProcessRuntime::start(Slow::new(0), "bad").err();
    assert_eq!(error, Some(testing::Refused("not this one".into())));
}

#[test]
fn a_runtime_in_the_process_sends_only_subscribed_events() {
    let slow = Slow::new(0);
    let started = slow.started.clone();
    let runtime = testing::InProcessRuntime::start(slow, "").unwrap();
    assert_eq!(runtime.events(), EventMask::from_iter([Event::CREATE_CONTAINER]));
    let pod = testing::pod("p");
    let container = testing::container(&pod, "c");
    let resources = LinuxResources::new();
    runtime.notify(Event::START_CONTAINER, &pod, Some(&container)).unwrap();
    runtime.notify(Event::RUN_POD_SANDBOX, &pod, None).unwrap();
    runtime.update_container(&pod, &container, &resources).unwrap();
    runtime.update_pod_sandbox(&pod, &resources, &resources).unwrap();
    assert!(runtime.stop_container(&pod, &container).unwrap().is_empty());
    runtime.validate(ValidateContainerAdjustmentRequest::new()).unwrap();
    assert_eq!(started.available_permits(), 0);
    runtime.shutdown();
}
