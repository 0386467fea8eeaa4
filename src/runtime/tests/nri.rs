//! Tests without plugins: records, wrong ids, required plugins, restart. Tests with plugins and
//! containers are in `integration/tests/embedding`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use async_trait::async_trait;
use nri_runtime::proto::{ContainerState, PodSandbox};
use nri_runtime::{
    ContainerInfo, Error, HandlerResult, Nri, RuntimeConfig, RuntimeHandler, Snapshot,
};
use serde_json::{Value, json};

/// Unusual numbers and unknown fields, which must stay.
const BUNDLE: &[u8] = br#"{"unknown": 1.50, "process": {"args": ["a"]},
    "linux": {"resources": {"pids": {"limit": 7}}}}"#;

struct Handler;

#[async_trait]
impl RuntimeHandler for Handler {
    async fn update_container(&self, _container: &str, _resources: &Value) -> HandlerResult {
        Ok(())
    }
}

fn config() -> RuntimeConfig {
    let mut config = RuntimeConfig::new("test", "1");
    config.plugin_dir = "".into();
    config.socket = None;
    config
}

async fn start(config: RuntimeConfig, existing: Snapshot) -> Nri {
    let nri = Nri::start(config, Handler, existing).await.unwrap();
    if nri.snapshot().pods.is_empty() {
        nri.run_pod_sandbox(PodSandbox { id: "p".into(), ..PodSandbox::default() }).await.unwrap();
    }
    nri
}

fn info(id: &str) -> ContainerInfo {
    ContainerInfo { id: id.into(), pod_sandbox_id: "p".into(), ..ContainerInfo::default() }
}

fn state(nri: &Nri, id: &str) -> ContainerState {
    nri.container(id).unwrap().state.unwrap()
}

#[tokio::test]
async fn a_container_without_plugins_lives_unchanged() {
    let nri = start(config(), Snapshot::default()).await;
    // Engines call from tasks: the futures must be `Send`.
    let task = tokio::spawn(async move {
        let adjusted = nri.create_container(&info("c"), BUNDLE).await.unwrap();
        assert_eq!((adjusted.config.as_slice(), adjusted.changed), (BUNDLE, false));
        assert_eq!(state(&nri, "c"), ContainerState::CONTAINER_CREATED);
        nri.change_container("c", |c| c.pid = 4711).unwrap();
        nri.post_create_container("c").unwrap();
        nri.start_container("c").await.unwrap();
        nri.post_start_container("c").unwrap();
        assert_eq!(state(&nri, "c"), ContainerState::CONTAINER_RUNNING);
        assert_eq!(nri.container("c").unwrap().pid, 4711);

        let requested = json!({"pids": {"limit": 9}, "unknown": 1});
        assert_eq!(nri.update_container("c", &requested).await.unwrap(), requested);
        nri.post_update_container("c").unwrap();
        let limit = nri.container("c").unwrap().linux.resources.pids.limit;
        assert_eq!(limit, 9);

        nri.stop_container("c").await.unwrap();
        assert_eq!(state(&nri, "c"), ContainerState::CONTAINER_STOPPED);
        nri.remove_container("c").await.unwrap();
        nri.stop_pod_sandbox("p").await.unwrap();
        nri.remove_pod_sandbox("p").await.unwrap();
        assert_eq!(nri.snapshot(), Snapshot::default());
        nri.shutdown().await;
    });
    task.await.unwrap();
}

#[tokio::test]
async fn unknown_existing_and_empty_ids_are_errors() {
    let nri = start(config(), Snapshot::default()).await;
    let other = ContainerInfo { pod_sandbox_id: "q".into(), ..info("c") };
    let error = nri.create_container(&other, BUNDLE).await.unwrap_err();
    assert!(matches!(error, Error::UnknownPod(id) if id == "q"));
    let error = nri.start_container("c").await.unwrap_err();
    assert!(matches!(error, Error::UnknownContainer(id) if id == "c"));
    nri.create_container(&info("c"), BUNDLE).await.unwrap();
    let error = nri.create_container(&info("c"), BUNDLE).await.unwrap_err();
    assert_eq!(error.to_string(), "container c exists already");
    assert!(nri.container("c").is_ok(), "the first container was forgotten");
    let pod = PodSandbox { id: "p".into(), ..PodSandbox::default() };
    assert_eq!(nri.run_pod_sandbox(pod).await.unwrap_err().to_string(), "pod p exists already");
    let error = nri.run_pod_sandbox(PodSandbox::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "pod has no id");
    let error = nri.create_container(&info(""), BUNDLE).await.unwrap_err();
    assert_eq!(error.to_string(), "container has no id");
    let error = nri.create_container(&info("d"), b"{\"process\": {\"args\": 1}}").await;
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("container d: ") && error.contains("process.args"), "{error}");
}

#[tokio::test]
async fn relative_paths_are_refused_and_nothing_is_created() {
    let set: [fn(&mut RuntimeConfig); 3] = [
        |config| config.socket = Some("relative/nri.sock".into()),
        |config| config.plugin_dir = "relative/plugins".into(),
        |config| config.plugin_config_dir = "relative/conf.d".into(),
    ];
    for set in set {
        let mut config = config();
        set(&mut config);
        let Err(error) = Nri::start(config, Handler, Snapshot::default()).await else {
            panic!("a relative path was taken")
        };
        assert!(matches!(error, Error::RelativePath { .. }), "{error}");
        assert!(error.to_string().contains(" is not an absolute path: relative/"), "{error}");
        assert!(!std::path::Path::new("relative").exists());
    }
}

#[tokio::test]
async fn no_container_is_created_without_a_required_plugin() {
    let mut config = config();
    config.required_plugins = vec!["needed".into()];
    let nri = start(config, Snapshot::default()).await;
    let error = nri.create_container(&info("c"), BUNDLE).await.unwrap_err();
    assert_eq!(error.to_string(), "required plugin needed is not active, so c cannot be created");
    assert!(nri.container("c").is_err(), "the container is recorded");
}

#[tokio::test]
async fn a_runtime_that_starts_again_has_its_containers() {
    let nri = start(config(), Snapshot::default()).await;
    nri.create_container(&info("c"), BUNDLE).await.unwrap();
    nri.post_start_container("c").unwrap();
    let existing = nri.snapshot();
    nri.shutdown().await;
    let nri = start(config(), existing.clone()).await;
    assert_eq!(nri.snapshot(), existing);
    nri.stop_container("c").await.unwrap();
    nri.remove_container("c").await.unwrap();
}
